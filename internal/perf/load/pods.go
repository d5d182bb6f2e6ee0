package load

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Kubernetes' default limits: endpoints in a slice, pods on a node.
const (
	sliceSize = 100
	nodeSize  = 110
)

// Pod is a pod as its proxy knows it.
type Pod struct {
	Namespace, Name, Address, Node, ServiceAccount string
	Labels                                         map[string]string
	Service                                        int
	// Router is set if its proxy is a gateway.
	Router bool
}

// Pods are the pods of a mesh while some are replaced. It is not safe for concurrent use.
type Pods struct {
	shape       Shape
	generations []int // of each place
	gone        []bool
	marks       []Marker // of each place: 0 in the first generation
}

// NewPods returns the pods of a shape, each in its first generation.
func NewPods(s Shape) *Pods {
	n := s.AllPods()
	return &Pods{shape: s, generations: make([]int, n), gone: make([]bool, n), marks: make([]Marker, n)}
}

// Pod returns the current pod of a place.
func (p *Pods) Pod(place int) Pod {
	service := p.shape.ServiceOf(place)
	pod := Pod{
		Namespace: p.shape.Namespace(service), Name: fmt.Sprintf(
			"%s-%05d-%03d", ServiceName(service), place, p.generations[place],
		),
		Address: podAddress(1 + place), Node: NodeName(place / nodeSize), ServiceAccount: "default",
		Labels:  map[string]string{"app": ServiceName(service), "version": "v1"},
		Service: service, Router: place >= p.shape.FirstRouter(),
	}
	if m := p.marks[place]; m > 0 {
		pod.Address = m.address()
	}
	return pod
}

// NodeName returns the name of the nth node.
func NodeName(n int) string { return fmt.Sprintf("%snode-%04d", Prefix, n) }

// Nodes returns how many nodes the pods run on.
func (s Shape) Nodes() int { return (s.AllPods() + nodeSize - 1) / nodeSize }

// Objects returns all Pods, and the EndpointSlices that a cluster's controller would make of them.
func (p *Pods) Objects() []source.Change {
	all := make([]source.Change, 0, p.shape.AllPods())
	for place := range p.shape.AllPods() {
		all = append(all, upsert(kinds.Pod, p.Pod(place).object()))
	}
	for service := range p.shape.AllServices() {
		for n := 0; ; n++ {
			if _, there := p.shape.place(service, n*sliceSize); !there {
				break
			}
			all = append(all, p.slice(service, n))
		}
	}
	return all
}

// Remove removes a pod, first from its EndpointSlice, as a controller does with a pod that is being
// deleted.
func (p *Pods) Remove(place int) []source.Change {
	p.gone[place] = true
	return []source.Change{p.sliceOf(place), deleted(upsert(kinds.Pod, p.Pod(place).object()))}
}

// Replace adds a pod at the place of a removed one. Its address contains the marker.
func (p *Pods) Replace(place int, m Marker) (Pod, []source.Change) {
	p.gone[place] = false
	p.generations[place]++
	p.marks[place] = m
	pod := p.Pod(place)
	return pod, []source.Change{upsert(kinds.Pod, pod.object()), p.sliceOf(place)}
}

// sliceOf returns the EndpointSlice of a place.
func (p *Pods) sliceOf(place int) source.Change {
	return p.slice(p.shape.ServiceOf(place), p.shape.numberOf(place)/sliceSize)
}

// slice returns the nth EndpointSlice of a service.
func (p *Pods) slice(service, n int) source.Change {
	o := slice(p.shape.Namespace(service), ServiceName(service), fmt.Sprintf("%03d", n))
	o.Labels[discoveryv1.LabelManagedBy] = Controller
	for i := n * sliceSize; i < (n+1)*sliceSize; i++ {
		place, there := p.shape.place(service, i)
		if !there {
			break
		}
		if p.gone[place] {
			continue
		}
		pod := p.Pod(place)
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{pod.Address}, Conditions: ready(), NodeName: &pod.Node,
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name},
		})
	}
	return upsert(kinds.EndpointSlice, o)
}

func (p Pod) object() *corev1.Pod {
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels}}
	o.Spec.ServiceAccountName, o.Spec.NodeName = p.ServiceAccount, p.Node
	o.Spec.Containers = []corev1.Container{
		{Name: "app", Image: "app", Ports: []corev1.ContainerPort{{ContainerPort: targetPort}}},
	}
	o.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	o.Status.Phase, o.Status.PodIP = corev1.PodRunning, p.Address
	o.Status.PodIPs = []corev1.PodIP{{IP: p.Address}}
	o.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return o
}

// Spread returns the places of a share of the pods, evenly spread: 25 of 100 are 0, 4, 8, …
func Spread(pods, chosen int) (places []int) {
	for i := range min(chosen, pods) {
		places = append(places, i*pods/chosen)
	}
	return slices.Compact(places)
}
