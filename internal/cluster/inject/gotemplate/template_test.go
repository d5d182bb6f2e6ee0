package gotemplate_test

import (
	"bytes"
	"maps"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/cluster/inject/gotemplate"
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

// same are templates that text/template evaluates to the same output.
var same = []string{
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

// TestSameAsTextTemplate compares outputs, and whether there is an error.
func TestSameAsTextTemplate(t *testing.T) {
	for _, text := range same {
		compare(t, text)
	}
}

func compare(t *testing.T, text string) {
	t.Helper()
	functions := template.FuncMap{}
	maps.Copy(functions, template.FuncMap(gotemplate.Library()))
	peer, err := template.New("t").Funcs(functions).Parse(text)
	own, ownErr := gotemplate.Parse("t", text, gotemplate.Library())
	require.Equal(t, err == nil, ownErr == nil, "%s: %v, %v", text, err, ownErr)
	if err != nil {
		return
	}
	var want bytes.Buffer
	err = peer.Execute(&want, data())
	got, ownErr := own.Execute(data())
	require.Equal(t, err == nil, ownErr == nil, "%s: %v, %v", text, err, ownErr)
	if err == nil {
		require.Equal(t, want.String(), string(got), text)
	}
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
		"indenting":     `{{ indent 1000000 "x" }}`,
		"counting":      `{{ until 1000000000 }}`,
		"growing sets":  `{{ $d := dict "a" 1 }}{{ range until 100 }}{{ $_ := set $d (print .) $d }}{{ end }}`,
	} {
		parsed, err := gotemplate.Parse("t", text, gotemplate.Library())
		require.NoError(t, err, name)
		_, err = parsed.Execute(nil)
		require.Error(t, err, name)
	}
}

func TestImaginaryNumbersAreRefused(t *testing.T) {
	for _, text := range []string{`{{ 0i }}`, `{{ 1i }}`, `{{ 1+2i }}`} {
		parsed, err := gotemplate.Parse("t", text, gotemplate.Library())
		require.NoError(t, err, text)
		_, err = parsed.Execute(nil)
		require.ErrorContains(t, err, "want an integer of 64 bits or a decimal", text)
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	parsed, err := gotemplate.Parse("sidecar", "a: 1\nb: {{ .Values.global.hub.at }}\n", gotemplate.Library())
	require.NoError(t, err)
	_, err = parsed.Execute(data())
	require.EqualError(t, err, `template sidecar:2:13: <.Values.global.hub.at>: string "h" has no field at`)
	_, err = gotemplate.Parse("sidecar", "a\n{{ env \"HOME\" }}", gotemplate.Library())
	require.ErrorContains(t, err, `sidecar:2: function "env" not defined`)
}

// plain returns data of the language's own types. Go prints structs and pointers by whether they
// can be addressed, which values here never can.
func plain() any {
	return map[string]any{
		"Meta": map[string]any{"Name": "web", "Labels": map[string]any{"app": "web", "b": "2", "a": "1"}},
		"Spec": map[string]any{"Containers": []any{map[string]any{"Name": "one"}, map[string]any{"Name": "two"}}},
		"Values": map[string]any{
			"global": map[string]any{"hub": "h", "port": 1.0, "on": true, "list": []any{"x", "y"}},
		},
		"Empty": map[string]any{},
		"N":     3,
	}
}

// FuzzTemplate: nothing panics or hangs, and what both evaluate without an error is the same.
func FuzzTemplate(f *testing.F) {
	for _, text := range same {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := gotemplate.Parse("t", text, gotemplate.Library())
		if err != nil {
			return
		}
		_, _ = parsed.Execute(data())
		got, err := parsed.Execute(plain())
		if err != nil {
			return
		}
		functions := template.FuncMap{}
		maps.Copy(functions, template.FuncMap(gotemplate.Library()))
		peer, err := template.New("t").Funcs(functions).Parse(text)
		require.NoError(t, err)
		var want bytes.Buffer
		if peer.Execute(&want, plain()) == nil { // it is stricter with numbers
			require.Equal(t, want.String(), string(got))
		}
	})
}
