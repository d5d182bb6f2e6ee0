package convert

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
	mesh "istio.io/api/mesh/v1alpha1"
)

type (
	provider    = mesh.MeshConfig_ExtensionProvider
	fileLog     = mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider
	fileFormat  = mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat
	ofFileText  = mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider_LogFormat_Text
	otelLog     = mesh.MeshConfig_ExtensionProvider_EnvoyOpenTelemetryLogProvider
	otelFormat  = mesh.MeshConfig_ExtensionProvider_EnvoyOpenTelemetryLogProvider_LogFormat
	ofFileLog   = mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLog
	ofOTelLog   = mesh.MeshConfig_ExtensionProvider_EnvoyOtelAls
	ofHTTPLog   = mesh.MeshConfig_ExtensionProvider_EnvoyHttpAls
	ofTCPLog    = mesh.MeshConfig_ExtensionProvider_EnvoyTcpAls
	httpService = mesh.MeshConfig_ExtensionProvider_EnvoyHttpGrpcV3LogProvider
	tcpService  = mesh.MeshConfig_ExtensionProvider_EnvoyTcpGrpcV3LogProvider
)

// logProviders are one provider of access logs of each kind.
func logProviders() []*provider {
	return []*provider{
		{Name: "file", Provider: &ofFileLog{EnvoyFileAccessLog: &fileLog{
			LogFormat: &fileFormat{LogFormat: &ofFileText{Text: "%PROTOCOL%"}},
		}}},
		{Name: "http-log", Provider: &ofHTTPLog{EnvoyHttpAls: &httpService{Service: "a.test", Port: 80}}},
		{Name: "tcp-log", Provider: &ofTCPLog{EnvoyTcpAls: &tcpService{Service: "a.test", Port: 80}}},
		{Name: "otel-log", Provider: &ofOTelLog{EnvoyOtelAls: &otelLog{
			Service: "a.test", Port: 80, LogFormat: &otelFormat{Labels: &structpb.Struct{
				Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("a")},
			}},
		}}},
	}
}

func TestLogFormatsThatEnvoyRefusesAreMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"plain":                       "",
		"100%%":                       "",
		"%START_TIME(%Y-%m-%d)%":      "",
		"%START_TIME%":                "",
		"%REQ(:PATH)%":                "",
		"%RESP(x-a):5%":               "",
		"%DYNAMIC_METADATA(a.b:c):9%": "",
		"%FILTER_STATE(a.b:PLAIN)%":   "",
		"%METADATA(ROUTE:a:b):9%":     "",
		"%ENVIRONMENT(HOME)%":         "",
		"%":                           "begins no operator",
		"%PROTOCOL":                   "begins no operator",
		"%protocol%":                  "begins no operator",
		"%PROTOCOL%%":                 "begins no operator",
		"%NONE%":                      "does not know",
		"%CEL(request.path)%":         "",
		"%CEL((1 + 2) * size(request.path)):9%%PROTOCOL%": "",
		"%CEL(request.path":      "begins no operator",
		"%CEL(request.path ==)%": "an expression that ends too early",
		"%CEL(nofunc(1))%":       "an expression that has the function nofunc",
		"%CEL((1)%2)%":           "an expression that ends too early",
		"%CEL()%":                "an expression that ends too early",
		"%CEL%":                  "does not know",
		"%REQ%":                  "no argument",
		"%REQ()%":                "no argument",
		"%REQ(a b)%":             "no argument",
		"%REQ(a?b?c)%":           "no argument",
		"%DYNAMIC_METADATA%":     "no argument",
		"%FILTER_STATE(a:FOO)%":  "no argument",
		"%METADATA(OTHER:a)%":    "no argument",
		"%METADATA%":             "no argument",
		"%QUERY_PARAM(a):2%":     "a length",
		"%RESPONSE_CODE:2%":      "has not",
		"%START_TIME(a\nb)%":     "cannot be printed",
	} {
		mistake := logFormatMistake(text)
		if want == "" {
			require.Empty(t, mistake, text)
			continue
		}
		require.Contains(t, mistake, want, text)
	}
}

// TestEveryOperatorIsKnown writes all operators that need no argument into one format; the golden
// case log-operators of translate/listener has the same, and a real Envoy takes it.
func TestEveryOperatorIsKnown(t *testing.T) {
	for word := range strings.FieldsSeq(plainOperators + " " + timeOperators) {
		require.Empty(t, logFormatMistake("%"+word+"%"))
	}
}
