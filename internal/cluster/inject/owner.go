package inject

import (
	"cmp"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owner is the workload that a Pod belongs to.
type Owner struct{ APIVersion, Kind, Name string }

// cronJobName matches the name of a Job that a CronJob has made.
var cronJobName = regexp.MustCompile(`^(.+)-\d{8,10}$`)

// ownerOf returns a Pod's workload, which its direct owner's name tells: a ReplicaSet's that of its
// Deployment, a Job's that of its CronJob. A Pod with none is its own.
func ownerOf(pod *corev1.Pod) Owner {
	own := Owner{"v1", "Pod", cmp.Or(pod.Name, strings.TrimSuffix(pod.GenerateName, "-"))}
	ref := metav1.GetControllerOf(pod)
	if ref == nil || pod.GenerateName == "" {
		return own
	}
	own = Owner{ref.APIVersion, ref.Kind, ref.Name}
	hash := pod.Labels["pod-template-hash"]
	if name, ok := strings.CutSuffix(ref.Name, "-"+hash); ok && hash != "" && ref.Kind == "ReplicaSet" {
		own.Kind, own.Name = "Deployment", name
	}
	if match := cronJobName.FindStringSubmatch(ref.Name); match != nil && ref.Kind == "Job" {
		own.Kind, own.Name = "CronJob", match[1]
	}
	return own
}
