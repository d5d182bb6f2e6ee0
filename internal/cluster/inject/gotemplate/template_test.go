package gotemplate_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/cluster/inject/gotemplate"
	"github.com/lateen-mesh/lateen/internal/testkit/cost"
)

// data returns what templates of the tests get.
func data() any {
	return struct {
		Meta   metav1.ObjectMeta
		Spec   corev1.PodSpec
		Config *mesh.ProxyConfig
		Values map[string]any
		Empty  map[string]string
		N      int
	}{
		Meta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web", "b": "2", "a": "1"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "one", Ports: []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81}}}, {Name: "two"},
		}},
		Config: &mesh.ProxyConfig{StatusPort: 15020, ProxyMetadata: map[string]string{"K": "v"}},
		Values: map[string]any{"global": map[string]any{"hub": "h", "port": 1.0, "on": true, "list": []any{"x", "y"}}},
		N:      3,
	}
}

// samples are templates of all that the language has.
var samples = []string{
	`plain`, `{{ .Meta.Name }}`, `{{- .N -}} x`, `{{ .Missing }}`, `{{ .Values.none }}`, `{{ .Values.none.more }}`,
	`{{ range .Spec.Containers }}{{ .Name }}{{ range .Ports }}:{{ .ContainerPort }}{{ end }};{{ end }}`,
	`{{ range $k, $v := .Meta.Labels }}{{ $k }}={{ $v }},{{ else }}none{{ end }}`,
	`{{ range $i, $c := .Spec.Containers }}{{ if $i }},{{ end }}{{ $c.Name }}{{ end }}`,
	`{{ range .Empty }}x{{ else }}none{{ end }}`, `{{ range $i := .N }}{{ $i }}{{ end }}`,
	`{{ range .Spec.Containers }}{{ if eq .Name "two" }}{{ break }}{{ end }}{{ .Name }}{{ end }}`,
	`{{ range .Spec.Containers }}{{ if eq .Name "one" }}{{ continue }}{{ end }}{{ .Name }}{{ end }}`,
	`{{ if and .N .Meta.Name }}a{{ else if .N }}b{{ else }}c{{ end }}`, `{{ with .Empty }}x{{ else }}y{{ end }}`,
	`{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ end }}{{ $x }}`,
	`{{ $x := .N }}{{ with .Meta }}{{ $.N }}{{ $x }}{{ .Name }}{{ end }}`,
	`{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .N }}{{ template "t" }}`, `{{ template "gone" . }}`,
	`{{ (index .Spec.Containers 0).Name }}`,
	`{{ index .Meta.Labels "app" }}`,
	`{{ index .Values "global" "list" 1 }}`,
	`{{ index .Spec.Containers 7 }}`, `{{ len .Spec.Containers }}`, `{{ len .N }}`, `{{ not .N }}`,
	`{{ eq .N 3 }}{{ ne .Meta.Name "web" }}{{ lt 1 2 }}{{ ge 1.5 2.5 }}`, `{{ eq .Meta.Name "a" "b" "web" }}`,
	`{{ printf "%s-%d" .Meta.Name .N | print }}`,
	`{{ .Meta.Name | printf "%q %s" "x" }}`,
	`{{ slice .Meta.Name 1 2 }}`,
	`{{ .Config.InterceptionMode }}{{ .Config.InterceptionMode.String }}{{ .Config.GetStatusPort }}`,
	`{{ .Config.GetTracing.GetTlsSettings }}`,
	`{{ .Config.Tracing.Sampling }}`,
	`{{ .Config.HoldApplicationUntilProxyStarts.GetValue }}`,
	`{{ .Config.ProxyMetadata.K }}`,
	`{{ .Config.ProxyMetadata.Gone }}`,
	`{{ index .Config.ProxyMetadata "Gone" }}`,
	`{{ or .Empty .N }}{{ and .N .Empty }}`,
	`{{ .Meta.Name.More }}`,
	`{{ 1 2 }}`,
	`{{ nil }}`,
	`{{ list 1 "a" | join "," }}{{ default "d" .Values.none }}{{ default "d" "x" }}{{ quote .Meta.Name .N }}{{ "a-b" | trimAll "-b" }}`,
	`{{ dict "a" 1 | toJson }}{{ $d := dict "x" 1 }}{{ $_ := set $d "y" 2 }}{{ keys $d | join "," }}{{ hasKey $d "y" }}`,
	`{{ "a,b" | splitList "," | last }}{{ trunc 2 "abc" }}{{ trunc -2 "abc" }}{{ "ab" | upper | repeat 2 }}{{ ternary "y" "n" true }}`,
	`{{ add 1 2 3 }}{{ sub 5 2 }}{{ div 7 2 }}{{ max 1 9 3 }}{{ until 3 }}{{ .Values.global.port | int }}`,
	`{{ div 1 0 }}`,
	`{{ 1.0 }}{{ 1e3 }}{{ 0x1e }}{{ 'e' }}{{ -2 }}{{ +0X2 }}{{ 1_0 }}{{ printf "%T" 2.0 }}{{ printf "%T" 1e2 }}`,
	`{{ fail "no" }}`,
	`{{ toYaml .Values.global | nindent 2 }}`,
	`{{ coalesce .Empty "" .N }}{{ empty .Empty }}{{ without (list 1 2 3) 2 }}{{ uniq (list 1 1 2) }}`,
	`{{ $m := merge (dict "a" 1) (dict "a" 2 "b" 3) }}{{ toJson $m }}{{ dig "global" "hub" "none" .Values }}`,
	`{{ "x" | b64enc | b64dec }}`,
	`{{ regexReplaceAll "[0-9]+" "a12b3" "#" }}`, `{{ regexMatch "(" "x" }}`, `{{ break }}`,
}

func TestEvaluationIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"recursion":     `{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`,
		"nested ranges": `{{ range until 1000 }}{{ range until 1000 }}{{ range until 9 }}{{ end }}{{ end }}{{ end }}`,
		"a long output": `{{ range until 1000 }}{{ repeat 10000 "x" }}{{ end }}`,
		"a long text":   `{{ repeat 1000000000 "x" }}`,
		"doubling":      `{{ $x := "xx" }}{{ range until 100 }}{{ $x = print $x $x }}{{ end }}`,
		"replacing":     `{{ $x := repeat 1000000 "x" }}{{ replace "x" $x $x }}`,
		"a wide format": `{{ printf "%1000000000d" 1 }}`,
		"indenting":     `{{ indent 2000000 "x" }}`,
		"counting":      `{{ until 1000000000 }}`,
		"a pattern":     `{{ regexMatch (repeat 100000 "a?") "b" }}`,
		"many matches":  `{{ regexReplaceAll "a" (repeat 100000 "a") (repeat 100000 "b") }}`,
		"wrapping":      `{{ wrapWith 1 (repeat 100000 "a") (repeat 100000 "b") }}`,
		"levels":        `{{ $d := list }}{{ range until 200 }}{{ $d = list $d }}{{ end }}`,
		"steps":         `{{ untilStep 0 1000000000 1 }}`,
		"sequences":     `{{ seq 1 1000000000 }}`,
		"no depth":      `{{ define "a" }}{{ range until 1 }}{{ template "a" }}{{ end }}{{ end }}{{ template "a" }}`,
		"escaping":      `{{ $x := "x" }}{{ range until 40 }}{{ $x = html $x $x }}{{ end }}`,
		"indexes":       `{{ printf (repeat 100000 "%[1]s") (repeat 1000000 "x") }}`,
		"merged cycles": `{{ $d := dict "a" (dict) }}{{ range until 200 }}` +
			`{{ $_ := merge $d (dict "a" $d) (dict "a" $d) }}{{ end }}`,
		"comparing":   `{{ uniq (until 100000) }}`,
		"many states": `{{ regexMatch (print (repeat 99 "(x?){100}") "y") (repeat 67000 "x") }}`,
		"copies":      `{{ $l := list . }}{{ range until 15 }}{{ $l = concat $l $l }}{{ end }}{{ toJson $l }}`,
		"much kept": `{{ $l := fromYaml (print "[" (repeat 20000 "{},") "{}]") }}` +
			`{{ range $l }}{{ $_ := set . "a" (repeat 1000000 "x") }}{{ end }}`,
		"growing sets": `{{ $d := dict "a" 1 }}{{ range until 100 }}{{ $_ := set $d (print .) $d }}{{ end }}`,
	} {
		parsed, err := gotemplate.Parse("main", text, nil, reflect.TypeOf(data()))
		require.NoError(t, err, name)
		done := cost.Bound(t, 256<<20)
		_, err = parsed.Execute(data())
		done()
		require.Error(t, err, name)
	}
}

// TestWhatCannotBeBoundedIsRefused: methods that change what they are called on, blocks that are
// nested deeper than the stack bears, and long texts.
func TestWhatCannotBeBoundedIsRefused(t *testing.T) {
	for want, text := range map[string]string{
		"calls the method Unmarshal":     `{{ $_ := .Spec.Unmarshal .Spec.Marshal }}`,
		"calls the method ProtoReflect":  `{{ with .Config }}{{ (.ProtoReflect).Clear }}{{ end }}`,
		"calls the method SetLabels":     `{{ $m := .Meta }}{{ $_ := $m.SetLabels (dict) }}`,
		"more than 100 blocks":           strings.Repeat(`{{ if 1 }}`, 200) + strings.Repeat(`{{ end }}`, 200),
		"more than 100 parentheses":      `{{ ` + strings.Repeat(`(`, 200) + `1` + strings.Repeat(`)`, 200) + ` }}`,
		"has 300000 bytes; want at most": strings.Repeat("x", 300_000),
	} {
		_, err := gotemplate.Parse("main", text, nil, reflect.TypeOf(data()))
		require.ErrorContains(t, err, want)
	}
}

// TestCountersCannotBeCalled: what counts is no function of templates.
func TestCountersCannotBeCalled(t *testing.T) {
	_, err := gotemplate.Parse("t", `{{ lateen_leave }}`, nil, nil)
	require.ErrorContains(t, err, `function "lateen_leave" not defined`)
}

// TestDependsOnArgumentsAlone: nothing reads the clock, the environment or the network, or makes
// keys.
func TestDependsOnArgumentsAlone(t *testing.T) {
	for _, name := range []string{
		"now", "env", "expandenv", "getHostByName", "randAlphaNum", "uuidv4", "genCA", "genPrivateKey", "bcrypt",
		"shuffle",
	} {
		_, err := gotemplate.Parse("t", "{{ "+name+" }}", nil, nil)
		require.ErrorContains(t, err, "not defined", name)
	}
}

// TestCountingChangesNoOutput: bodies that count make the output that they made.
func TestCountingChangesNoOutput(t *testing.T) {
	for text, want := range map[string]string{
		`{{ range until 3 }}{{ . }}{{ else }}none{{ end }}`:                                                           "012",
		`{{ range .Spec.Containers }}{{ if eq .Name "two" }}{{ break }}{{ end }}{{ .Name }}{{ end }}`:                 "one",
		`{{ define "t" }}<{{ . }}>{{ end }}{{ template "t" .N }}{{ template "t" 4 }}`:                                 "<3><4>",
		`{{ with .Empty }}x{{ else }}y{{ end }}{{ $x := 1 }}{{ if .N }}{{ $x = 2 }}{{ end }}{{ $x }}`:                 "y2",
		`{{ printf "a.%s.svc:15012 *" .Meta.Name }} {{ until 11 | join "," }} {{ join "," 1.5 }}`:                     "a.web.svc:15012 * 0,1,2,3,4,5,6,7,8,9,10 1.5",
		`{{ untilStep 8000 8003 1 }} {{ seq 1000 1002 }} {{ dict "b" 1 "a" 2 | keys | join "," }} {{ .Values.none }}`: "[8000 8001 8002] 1000 1001 1002 a,b <no value>",
		`{{ .Config.GetStatusPort }} {{ .Config.GetTracing.GetTlsSettings }}`:                                         "15020 <nil>",
		`{{ snakecase "FirstName" }} {{ semverCompare ">=1.2" "1.3.0" }} {{ plural "one" "many" 2 }}`:                 "first_name true many",
	} {
		parsed, err := gotemplate.Parse("main", text, nil, reflect.TypeOf(data()))
		require.NoError(t, err, text)
		got, err := parsed.Execute(data())
		require.NoError(t, err, text)
		require.Equal(t, want, string(got), text)
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	parsed, err := gotemplate.Parse("sidecar", "a: 1\nb: {{ .Values.global.hub.at }}\n", nil, reflect.TypeOf(data()))
	require.NoError(t, err)
	_, err = parsed.Execute(data())
	require.ErrorContains(t, err, "sidecar:2:13")
	require.ErrorContains(t, err, "<.Values.global.hub.at>")
	_, err = gotemplate.Parse("sidecar", "a\n{{ env \"HOME\" }}", nil, nil)
	require.ErrorContains(t, err, `sidecar:2: function "env" not defined`)
	parsed, err = gotemplate.Parse("sidecar",
		"a: 1\n{{ range until 1000 }}{{ range until 1000 }}x{{ end }}{{ end }}", nil, nil)
	require.NoError(t, err)
	_, err = parsed.Execute(nil)
	require.ErrorContains(t, err, "sidecar:2:")
	require.ErrorContains(t, err, "more than 200000 steps")
}

// FuzzTemplate: nothing panics, hangs or takes much memory.
func FuzzTemplate(f *testing.F) {
	for _, text := range samples {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := gotemplate.Parse("main", text, nil, reflect.TypeOf(data()))
		if err != nil {
			return
		}
		done := cost.Bound(t, 256<<20)
		defer done()
		_, _ = parsed.Execute(data())
	})
}
