package inject

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/cost"
)

// FuzzInject: whatever a Pod says, it is injected, skipped, or refused with an error. A second
// injection changes nothing.
func FuzzInject(f *testing.F) {
	for _, pod := range []string{
		`{"spec": {"containers": [{"name": "web", "livenessProbe": {"httpGet": {"port": "http"}}}]}}`,
		`{"metadata": {"annotations": {"sidecar.istio.io/status": "{}", "proxy.istio.io/overrides": "{}"}}, "spec": {}}`,
		`{"metadata": {"annotations": {"inject.istio.io/templates": "gateway"}},
		  "spec": {"containers": [{"name": "istio-proxy", "image": "auto"}]}}`,
		`{"metadata": {"annotations": {"proxy.istio.io/config": "concurrency: 2", "prometheus.io/port": "80"}}}`,
		`{"spec": {"contAiners": [{"name": "web"}]}}`, // another key, to the API server
		`{"spec": {"containers": null, "initContainers": [null], "volumes": [{"name": "istio-token"}]}}`,
	} {
		f.Add([]byte(pod), false)
	}
	for _, pod := range expensivePods(f) {
		f.Add(pod, false)
	}
	var injectors [2]*Injector
	for n := range injectors {
		var err error
		injectors[n], err = New(Options{Namespace: "istio-system", NativeSidecars: n == 1}, Texts{})
		require.NoError(f, err)
	}
	f.Fuzz(func(t *testing.T, pod []byte, native bool) {
		injector := injectors[0]
		if native {
			injector = injectors[1]
		}
		done := cost.Bound(t, 256<<20)
		defer done()
		once, err := injector.Inject(Pod{JSON: pod, Namespace: "default"})
		if err != nil || !once.Inject {
			require.Nil(t, once.Patch)
			return
		}
		require.True(t, json.Valid(once.Patch))
		twice, err := injector.Inject(Pod{JSON: once.JSON, Namespace: "default"})
		require.NoError(t, err)
		require.Equal(t, "[]", string(twice.Patch))
	})
}
