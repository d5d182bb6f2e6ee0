package inject

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/cost"
)

// podWith returns the JSON of a Pod with annotations.
func podWith(t testing.TB, annotations map[string]string, spec string) []byte {
	raw, err := json.Marshal(annotations)
	require.NoError(t, err)
	return fmt.Appendf(nil, `{"metadata": {"annotations": %s}, "spec": %s}`, raw, spec)
}

// expensivePods are Pods that would take hours or gigabytes, with what is said of them.
func expensivePods(t testing.TB) map[string][]byte {
	const number = "11111111111111111111e1000000000"
	const plainSpec = `{"containers": [{"name": "web"}]}`
	limited := `{"containers": [{"name": "web", "resources": {"limits": {"cpu": "` + number + `"}}}]}`
	ports := strings.Repeat("8080,", 40_000) + "1"
	return map[string][]byte{
		`[sidecar.istio.io/proxyCPU] = "` + number: podWith(t, map[string]string{cpuName: number}, plainSpec),
		`[sidecar.istio.io/proxyMemoryLimit] =`:    podWith(t, map[string]string{memoryLimitName: number}, plainSpec),
		"spec.containers[0].resources.limits[cpu]": podWith(t, nil, limited),
		"containers[0].resources.limits[cpu]": podWith(t, map[string]string{
			statusName: `{"containers": ["istio-proxy"]}`, overridesName: limited,
		}, plainSpec),
		"spec.overhead[cpu]": podWith(t, nil, `{"overhead": {"cpu": 1e1000000000}}`),
		"at most 50000":      podWith(t, nil, `{"containers": [`+strings.Repeat("{},", 60_000)+`{}]}`),
		"nested deeper":      podWith(t, nil, strings.Repeat("[", 5000)+strings.Repeat("]", 5000)),
		"[sidecar.istio.io/userVolume] =": podWith(t,
			map[string]string{userVolumeName: `{"a": {"b": [` + strings.Repeat("[],", 10_000) + `[]]}}`}, plainSpec),
		"[proxy.istio.io/config] =": podWith(t, map[string]string{
			ProxyConfigAnnotation: "proxyMetadata: {A: a}\nx: &a [" + strings.Repeat("b,", 100) + "]\ny: [" +
				strings.Repeat("*a,", 1000) + "]",
		}, plainSpec),
		"and at most 1000": podWith(t, map[string]string{excludeInboundName: ports}, plainSpec),
		"at most 262144":   podWith(t, map[string]string{"note": strings.Repeat("a", 300_000)}, plainSpec),
	}
}

// What a Pod says costs little, whatever it says, and the answer is short and names the field.
func TestExpensivePodsAreRefused(t *testing.T) {
	injector, err := New(Options{Namespace: "istio-system"}, Texts{})
	require.NoError(t, err)
	for want, pod := range expensivePods(t) {
		t.Run(want, func(t *testing.T) {
			done := cost.Bound(t, 128<<20)
			_, err := injector.Inject(Pod{JSON: pod, Namespace: "default"})
			done()
			require.ErrorContains(t, err, want)
			require.Less(t, len(err.Error()), 1000)
		})
	}
	commit := podWith(t, map[string]string{"commit": "12e45678"},
		`{"containers": [{"name": "web", "env": [{"name": "A", "value": "1e1000000000"}]}]}`)
	result, err := injector.Inject(Pod{JSON: commit, Namespace: "default"})
	require.NoError(t, err)
	require.True(t, result.Inject, "a text that is no quantity may look like one")
}

// FuzzValues: whatever the ConfigMap says, it makes an injector that injects within bounds, or an
// error.
func FuzzValues(f *testing.F) {
	f.Add("policy: enabled", "global: {proxy: {resources: {requests: {cpu: 1e1000000000}}}}", "trustDomain: a")
	f.Add("templates: {sidecar: '{{ fromYaml \"a: &a [*a]\" }}'}", "a: &a [1, 2]\nb: [*a, *a]",
		"defaultConfig: {concurrency: 1}")
	f.Fuzz(func(t *testing.T, config, values, mesh string) {
		done := cost.Bound(t, 512<<20)
		defer done()
		injector, err := New(Options{Namespace: "istio-system"}, Texts{Config: config, Values: values, Mesh: mesh})
		if err != nil {
			return
		}
		_, _ = injector.Inject(Pod{JSON: []byte(`{"spec": {"containers": [{"name": "web"}]}}`), Namespace: "default"})
	})
}

// A record of an injection on a Pod that has none is not from injection. It is told and dropped: a
// second injection would read it, and undo the first.
func TestForeignRecordIsDropped(t *testing.T) {
	const record = `{"containers": [{"name": "web", "resources": {"limits": {"cpu": "1e1000000000"}}}]}`
	injector, err := New(Options{Namespace: "istio-system"}, Texts{})
	require.NoError(t, err)
	for _, spec := range []string{
		`{"containers": [{"name": "web"}]}`,
		`{"containers": [{"name": "web"}, {"name": "istio-proxy", "image": "auto", "workingDir": "/own"}]}`,
	} {
		pod := podWith(t, map[string]string{overridesName: record}, spec)
		once, err := injector.Inject(Pod{JSON: pod, Namespace: "default"})
		require.NoError(t, err)
		require.NotContains(t, string(once.JSON), "1000000000")
		require.Contains(t, once.Warning, "metadata.annotations[proxy.istio.io/overrides]")
		twice, err := injector.Inject(Pod{JSON: once.JSON, Namespace: "default"})
		require.NoError(t, err)
		require.Equal(t, "[]", string(twice.Patch))
		require.Empty(t, twice.Warning)
	}
}
