package local

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

func TestWorkersOfAnEnvoy(t *testing.T) {
	of := func(config string) (int, error) {
		meta := metav1.ObjectMeta{Annotations: map[string]string{proxyConfig: config}}
		return workersOf(&corev1.Pod{ObjectMeta: meta}, model.ProxyConfigs{}, nil)
	}
	for config, want := range map[string]int{
		"": 1, "drainDuration: 3s": 1, "concurrency: 2": 2, `{"concurrency": 3}`: 3, "concurrency: 0": runtime.NumCPU(),
	} {
		n, err := of(config)
		require.NoError(t, err, config)
		require.Equal(t, want, n, config)
	}
	two, three := &model.ProxyConfig{Concurrency: new(int32(2))}, &model.ProxyConfig{Concurrency: new(int32(3))}
	annotated := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{proxyConfig: "concurrency: 5"},
	}}
	for n, objects := range map[int]model.ProxyConfigs{
		2: {Mesh: two}, 3: {Mesh: two, Namespace: three}, 5: {Mesh: two, Namespace: three},
	} {
		pod := &corev1.Pod{}
		if n == 5 {
			pod = annotated
		}
		workers, err := workersOf(pod, objects, new(int32(7)))
		require.NoError(t, err)
		require.Equal(t, n, workers)
	}
	workers, err := workersOf(annotated, model.ProxyConfigs{Workload: two}, new(int32(7)))
	require.NoError(t, err)
	require.Equal(t, 2, workers, "the object that selects the workload stands over the annotation")
	workers, err = workersOf(&corev1.Pod{}, model.ProxyConfigs{}, new(int32(7)))
	require.NoError(t, err)
	require.Equal(t, 7, workers, "the mesh configuration says it where nothing else does")
	_, err = of("concurrency: -1")
	require.ErrorContains(t, err, "metadata.annotations[proxy.istio.io/config]: concurrency -1: want 0")
	_, err = of("concurrency: many")
	require.ErrorContains(t, err, `"concurrency: many"`)
}

// TestMeshConfigurationSaysHowManyWorkers starts an Envoy with the defaultConfig of the ConfigMap
// istio.
func TestMeshConfigurationSaysHowManyWorkers(t *testing.T) {
	config := memory.Upsert(kinds.ConfigMap, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istio"},
		Data:       map[string]string{"mesh": "defaultConfig: {concurrency: 3}"},
	})
	m := run(t, Options{}, config, deployment("web", 1, nil))
	s := m.await(t, (*Snapshot).Ready)
	i := slices.IndexFunc(s.Pods[0].Processes, func(p ProcessStatus) bool { return p.Name == proxyContainer })
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.Pods[0].Processes[i].PID))
	require.NoError(t, err)
	require.Contains(t, string(args), "--concurrency\x003\x00")
}

func TestNegativeConcurrencyOfTheMeshHasNoEffect(t *testing.T) {
	in := newInputs()
	in.apply(memory.Upsert(kinds.ConfigMap, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: "istio"},
		Data:       map[string]string{"mesh": "defaultConfig: {concurrency: -3}"},
	}))
	require.Nil(t, in.concurrency())
}
