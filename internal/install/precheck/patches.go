package precheck

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

// addPod adds what the injection made of a Pod, whose proxy the patches of EnvoyFilters may be for.
func (c *Checker) addPod(injected []byte, namespace, workload string) {
	var pod corev1.Pod
	if json.Unmarshal(injected, &pod) != nil {
		return // the verdict on the workload says what is wrong
	}
	pod.Namespace = namespace
	if pod.Name == "" {
		pod.GenerateName = workload + "-"
	}
	c.offline.AddPod(&pod)
}

// patches returns what is to be said of patches that match nothing of the proxies that they are
// for, by the EnvoyFilter.
func (c *Checker) patches() map[source.Key][]Finding {
	if !c.offline.HasFilters() {
		return nil
	}
	found := map[source.Key][]Finding{}
	for _, p := range c.offline.Compile(c.converter, c.mesh).Idle() {
		found[p.Object] = append(found[p.Object], findingOf(p))
	}
	return found
}
