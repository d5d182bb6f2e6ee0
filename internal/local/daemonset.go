package local

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// daemonRolloutOf reads what a DaemonSet asks for: one pod, as there is one node. Unlike in a
// cluster, the successor of a pod starts before that is stopped, as with Deployments.
func daemonRolloutOf(d *appsv1.DaemonSet) rollout {
	return rollout{
		replicas: 1, surge: 1, hash: templateHash(&d.Spec.Template),
		keepOld: d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType,
	}
}

// identifyDaemon gives a pod of a DaemonSet the name and the labels that a cluster would.
func identifyDaemon(pod *corev1.Pod, o *owner, ordinal int) {
	pod.Name = podNameOf(o, ordinal)
	setKey(&pod.Labels, appsv1.ControllerRevisionHashLabelKey, o.hash)
}

// podNameOf returns a name that ends as those do that Kubernetes makes. It is the same in each run.
func podNameOf(o *owner, ordinal int) string {
	return o.key.Name + "-" + safeHash(5, o.key.Name, o.hash, fmt.Sprint(ordinal))
}
