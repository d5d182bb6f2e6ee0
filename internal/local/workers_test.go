package local

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWorkersOfAnEnvoy(t *testing.T) {
	of := func(config string) (int, error) {
		meta := metav1.ObjectMeta{Annotations: map[string]string{proxyConfig: config}}
		return workersOf(&corev1.Pod{ObjectMeta: meta})
	}
	for config, want := range map[string]int{
		"": 1, "drainDuration: 3s": 1, "concurrency: 2": 2, `{"concurrency": 3}`: 3, "concurrency: 0": runtime.NumCPU(),
	} {
		n, err := of(config)
		require.NoError(t, err, config)
		require.Equal(t, want, n, config)
	}
	_, err := of("concurrency: -1")
	require.ErrorContains(t, err, "metadata.annotations[proxy.istio.io/config]: concurrency -1: want 0")
	_, err = of("concurrency: many")
	require.ErrorContains(t, err, `"concurrency: many"`)
}
