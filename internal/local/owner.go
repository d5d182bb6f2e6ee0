package local

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// owner is an object that pods are made from: a Deployment, a StatefulSet, a DaemonSet, a Job or a
// bare Pod.
type owner struct {
	key    source.Key
	origin string
	// path is where the pod's specification stands in the object.
	path string
	meta metav1.ObjectMeta
	spec *corev1.PodSpec
	hash string
	// selector selects the owner's pods; nil for a Job, which has one of its own, and for a Pod.
	selector *metav1.LabelSelector
}

// owners returns all owners in a fixed order.
func (in *inputs) owners() []owner {
	var out []owner
	for key, d := range in.deployments {
		o := templateOwner(key, &d.object.Spec.Template)
		o.origin, o.selector = d.origin, d.object.Spec.Selector
		out = append(out, o)
	}
	for key, d := range in.statefulSets {
		t := d.object.Spec.Template.DeepCopy()
		t.Spec.Subdomain = d.object.Spec.ServiceName
		o := templateOwner(key, t)
		o.origin, o.selector = d.origin, d.object.Spec.Selector
		out = append(out, o)
	}
	for key, d := range in.daemonSets {
		o := templateOwner(key, &d.object.Spec.Template)
		o.origin, o.selector = d.origin, d.object.Spec.Selector
		out = append(out, o)
	}
	for key, j := range in.jobs {
		o := templateOwner(key, &j.object.Spec.Template)
		o.origin = j.origin
		out = append(out, o)
	}
	for key, p := range in.pods {
		meta := metav1.ObjectMeta{Labels: p.object.Labels, Annotations: p.object.Annotations}
		o := templateOwner(key, &corev1.PodTemplateSpec{ObjectMeta: meta, Spec: p.object.Spec})
		o.origin, o.path = p.origin, "spec"
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b owner) int { return cmp.Compare(a.key.String(), b.key.String()) })
	return out
}

func templateOwner(key source.Key, t *corev1.PodTemplateSpec) owner {
	return owner{key: key, path: "spec.template.spec", meta: t.ObjectMeta, spec: &t.Spec, hash: templateHash(t)}
}

// originOf returns where the manifest of an owner stands.
func (in *inputs) originOf(key source.Key) string {
	return cmp.Or(
		in.deployments[key].origin, in.statefulSets[key].origin, in.daemonSets[key].origin, in.jobs[key].origin,
		in.pods[key].origin,
	)
}

// hasTemplate reports whether the owner makes pods that have other names than itself.
func (o *owner) hasTemplate() bool { return o.key.Kind != kinds.Pod }

// mustSelect reports whether the owner names the labels of its pods, as a cluster demands.
func (o *owner) mustSelect() bool { return o.hasTemplate() && o.key.Kind != kinds.Job }

// selectorMatches reports whether a cluster would take the pods of the template for the
// owner's own.
func (o *owner) selectorMatches() bool {
	s, err := metav1.LabelSelectorAsSelector(o.selector)
	return err == nil && s.Matches(labels.Set(o.meta.Labels))
}

// identify gives a pod the name, the labels and the controller that a cluster would.
func (o *owner) identify(pod *corev1.Pod, ordinal int) {
	isController := true
	by := metav1.OwnerReference{
		APIVersion: "apps/v1", Kind: string(o.key.Kind), Name: o.key.Name, Controller: &isController,
	}
	switch o.key.Kind {
	case kinds.Deployment:
		pod.Name = podName(o.key.Name, o.hash, ordinal)
		by.Kind, by.Name = "ReplicaSet", o.key.Name+"-"+o.hash
		setKey(&pod.Labels, revisionLabel, o.hash)
	case kinds.StatefulSet:
		identifyMember(pod, o, ordinal)
	case kinds.DaemonSet:
		identifyDaemon(pod, o, ordinal)
	case kinds.Job:
		identifyWorker(pod, o, ordinal)
		by.APIVersion = "batch/v1"
	default:
		pod.Name = o.key.Name
		return
	}
	pod.OwnerReferences = []metav1.OwnerReference{by}
}
