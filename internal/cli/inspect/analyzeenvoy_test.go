package inspect

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

func scriptFilter(name, script string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: %[1]s, namespace: default}
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match: {context: GATEWAY}
    patch:
      operation: INSERT_FIRST
      value:
        name: lua.%[1]s
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code: {inline_string: "%[2]s"}
`, name, script)
}

// TestAnalyzeAsksEnvoy: of two EnvoyFilters Envoy refuses one, and that is told with Envoy's
// reason.
func TestAnalyzeAsksEnvoy(t *testing.T) {
	envoy := realenvoy.Binary(t)
	gateway := `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: default}
spec:
  selector: {app: gw}
  servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]
`
	with := func(filters ...string) []string {
		return append([]string{aService, aDeployment, gateway}, filters...)
	}
	fine := scriptFilter("fine", "function envoy_on_request(h) end")
	out, err := analyzed(t, []string{"--envoy", envoy}, with(fine)...)
	require.NoError(t, err, out)
	out, err = analyzed(t, []string{"--envoy", envoy}, with(fine, scriptFilter("bad", "function envoy_on_request("))...)
	require.Equal(t, command.ExitCode(exitErrors), err, out)
	require.Contains(t, out, "EnvoyFilter default/bad: spec.configPatches: Envoy refuses ecds lua.bad "+
		"with the object: script load error")
	require.NotContains(t, out, "default/fine")
	_, err = analyzed(t, []string{"--envoy", "/nonexistent"}, with(fine)...)
	require.ErrorContains(t, err, "want the path of an Envoy")
}
