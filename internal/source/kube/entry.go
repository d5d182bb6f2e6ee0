package kube

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"unique"

	"google.golang.org/protobuf/proto"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingk8s "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/source"
)

// entry is an object of the API as far as it is used.
type entry struct {
	key source.Key
	// object is nil when it cannot be read.
	object  metav1.Object
	problem *source.Problem
	print   print
}

// print is the fingerprint of an entry: 62 bits of a keyed hash, and what the sink holds because of it.
type print uint64

const (
	hasObject print = 1 << iota
	hasReport
)

// revisionLabel says which control plane an object is for.
const revisionLabel = "istio.io/rev"

// reader turns objects into entries. It is used by one goroutine.
type reader struct {
	resource *resource
	revision string
	seed     maphash.Seed
	buffer   []byte
}

// read gives the entry of an object. It takes the object over; false if it is another control plane's, or means nothing here.
func (r *reader) read(o metav1.Object) (entry, bool) {
	if s, ok := o.(*corev1.Secret); ok && !hasCertificates(s) {
		return entry{}, false
	}
	if rev, set := o.GetLabels()[revisionLabel]; set && r.resource.revisioned && rev != r.revision {
		return entry{}, false
	}
	e := entry{key: r.keyOf(o)}
	r.buffer = r.buffer[:0]
	switch o := o.(type) {
	case *custom:
		r.readCustom(o, &e)
	default:
		trim(o)
		e.object = o
		r.buffer = appendStable(r.buffer, o)
	}
	if e.object != nil {
		e.print |= hasObject
	}
	if e.problem != nil {
		e.print |= hasReport
		r.buffer = append(r.buffer, e.problem.String()...)
	}
	e.print |= print(maphash.Bytes(r.seed, r.buffer)) &^ (hasObject | hasReport)
	return e, true
}

// keyOf names an object with strings of which there is one each: namespaces repeat.
func (r *reader) keyOf(o metav1.Object) source.Key {
	return source.Key{Kind: r.resource.kind, Namespace: intern(o.GetNamespace()), Name: o.GetName()}
}

// intern is for strings that many objects have.
func intern(s string) string { return unique.Make(s).Value() }

func (r *reader) readCustom(c *custom, e *entry) {
	if c.flaw != nil {
		e.problem = &source.Problem{
			Severity: c.flaw.severity, Object: e.key, Path: "spec", Message: c.flaw.message, Want: c.flaw.want,
		}
	}
	if c.object == nil {
		return
	}
	meta := metaOf(&c.ObjectMeta)
	c.object.SetName(meta.Name)
	c.object.SetNamespace(intern(meta.Namespace))
	c.object.SetUID(meta.UID)
	c.object.SetCreationTimestamp(meta.CreationTimestamp)
	c.object.SetGeneration(c.Generation) // what is written into a status refers to it
	c.object.SetAnnotations(annotations(c.Annotations))
	e.object = c.object
	r.buffer = append(r.buffer, meta.UID...)
	r.buffer = binary.AppendVarint(r.buffer, meta.CreationTimestamp.Unix())
	r.buffer = binary.AppendVarint(r.buffer, c.Generation)
	for _, name := range usedAnnotations {
		if value, set := c.Annotations[name]; set {
			r.buffer = fmt.Appendf(r.buffer, "%q:%q,", name, value)
		}
	}
	var err error
	if r.buffer, err = (proto.MarshalOptions{Deterministic: true}).MarshalAppend(r.buffer, specOf(c.object)); err != nil {
		// A string that is not UTF-8 cannot come out of JSON; whatever else it may be, nothing of it is delivered.
		e.object = nil
		e.problem = &source.Problem{Severity: source.Error, Object: e.key, Path: "spec", Message: "cannot be read: " + err.Error()}
	}
}

// stable is what the types of Kubernetes have: an encoding in which maps are sorted.
type stable interface {
	Size() int
	MarshalToSizedBuffer([]byte) (int, error)
}

// appendStable appends a built-in object. An encoding that fails, which none does, would make every update count as one.
func appendStable(buffer []byte, o metav1.Object) []byte {
	s, ok := o.(stable)
	if !ok {
		return fmt.Appendf(buffer, "%p", o)
	}
	at, size := len(buffer), s.Size()
	for range size {
		buffer = append(buffer, 0)
	}
	if _, err := s.MarshalToSizedBuffer(buffer[at:]); err != nil {
		return fmt.Appendf(buffer[:at], "%p", o)
	}
	return buffer
}

// metaOf is what counts of an object that can compete with others: the older one wins.
func metaOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, CreationTimestamp: m.CreationTimestamp}
}

// nameOf is what counts of all others.
func nameOf(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: intern(m.Namespace)}
}

// trim drops from a built-in object what nobody to the right of a source reads. A test compares what both mean.
func trim(o metav1.Object) {
	switch o := o.(type) {
	case *corev1.Namespace:
		*o = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: o.Labels}}
	case *corev1.Node:
		*o = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: topology(o.Labels)}}
	case *corev1.ConfigMap:
		*o = corev1.ConfigMap{ObjectMeta: nameOf(&o.ObjectMeta), Data: o.Data}
	case *corev1.Service:
		meta := metaOf(&o.ObjectMeta)
		meta.Annotations = annotations(o.Annotations)
		*o = corev1.Service{ObjectMeta: meta, Spec: o.Spec}
	case *discoveryv1.EndpointSlice:
		trimSlice(o)
	case *corev1.Pod:
		trimPod(o)
	case *networkingk8s.Ingress:
		meta := metaOf(&o.ObjectMeta)
		meta.Annotations = annotations(o.Annotations)
		*o = networkingk8s.Ingress{ObjectMeta: meta, Spec: o.Spec}
	case *networkingk8s.IngressClass:
		*o = networkingk8s.IngressClass{ObjectMeta: nameOf(&o.ObjectMeta), Spec: networkingk8s.IngressClassSpec{Controller: o.Spec.Controller}}
	case *corev1.Secret:
		*o = corev1.Secret{ObjectMeta: nameOf(&o.ObjectMeta), Type: o.Type, Data: only(o.Data, usedSecretKeys)}
	}
}

func trimSlice(o *discoveryv1.EndpointSlice) {
	meta := nameOf(&o.ObjectMeta)
	if service, set := o.Labels[discoveryv1.LabelServiceName]; set {
		meta.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		e.DeprecatedTopology = nil
		if e.Hints != nil {
			if e.Hints.ForNodes = nil; len(e.Hints.ForZones) == 0 {
				e.Hints = nil
			}
		}
		if e.TargetRef != nil {
			e.TargetRef = &corev1.ObjectReference{Kind: e.TargetRef.Kind, Namespace: e.TargetRef.Namespace, Name: e.TargetRef.Name}
		}
	}
	*o = discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: o.AddressType, Endpoints: o.Endpoints, Ports: o.Ports}
}

// trimPod leaves a Pod's labels and addresses, where it runs and as whom, the names of its ports, and whether it is being deleted. Nothing
// of it competes with others, so its age and UID do not count.
func trimPod(o *corev1.Pod) {
	meta := nameOf(&o.ObjectMeta)
	meta.DeletionTimestamp = o.DeletionTimestamp
	meta.Labels, meta.Annotations = o.Labels, annotations(o.Annotations)
	if name, set := o.Labels[appsv1.StatefulSetPodNameLabel]; set && name == meta.Name {
		o.Labels[appsv1.StatefulSetPodNameLabel] = meta.Name // one string in place of two
	}
	spec := corev1.PodSpec{ServiceAccountName: intern(o.Spec.ServiceAccountName), NodeName: intern(o.Spec.NodeName)}
	for _, c := range o.Spec.Containers {
		spec.Containers = append(spec.Containers, corev1.Container{Ports: ports(c.Ports)})
	}
	for _, c := range o.Spec.InitContainers {
		spec.InitContainers = append(spec.InitContainers, corev1.Container{Ports: ports(c.Ports), RestartPolicy: c.RestartPolicy})
	}
	status := corev1.PodStatus{Phase: o.Status.Phase, PodIP: o.Status.PodIP, PodIPs: o.Status.PodIPs}
	if status.Phase != corev1.PodSucceeded && status.Phase != corev1.PodFailed {
		status.Phase = "" // all others mean the same
	}
	*o = corev1.Pod{ObjectMeta: meta, Spec: spec, Status: status}
}

func ports(list []corev1.ContainerPort) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range list {
		out = append(out, corev1.ContainerPort{Name: intern(p.Name), ContainerPort: p.ContainerPort, Protocol: p.Protocol})
	}
	return out
}
