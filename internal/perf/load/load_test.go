package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

func shapes() *rapid.Generator[Shape] {
	return rapid.Custom(func(t *rapid.T) Shape {
		namespaces := rapid.IntRange(1, 5).Draw(t, "namespaces")
		others := rapid.IntRange(0, 2).Draw(t, "unmanaged namespaces")
		services := namespaces + rapid.IntRange(0, 5).Draw(t, "more services")
		return Shape{
			Namespaces: namespaces, Services: services, Pods: rapid.IntRange(0, 250).Draw(t, "pods"),
			VirtualServices: rapid.IntRange(0, services).Draw(t, "virtual services"), Isolated: rapid.Bool().Draw(t,
				"isolated"),
			Gateways: rapid.Bool().Draw(t, "gateways"), UnmanagedNamespaces: others, UnmanagedServices: 2 * others,
			UnmanagedPods: others * rapid.IntRange(0, 300).Draw(t, "unmanaged pods"),
		}
	})
}

func all(s Shape, p *Pods) map[source.Key]source.Change {
	objects := map[source.Key]source.Change{}
	for _, c := range append(s.Objects(), p.Objects()...) {
		objects[c.Key] = c
	}
	return objects
}

func TestAMeshIsAFunctionOfItsShape(t *testing.T) {
	s := Shape{Namespaces: 2, Services: 3, Pods: 5, VirtualServices: 2, Isolated: true}
	require.NoError(t, s.Validate())
	require.Empty(t, cmp.Diff(all(s, NewPods(s)), all(s, NewPods(s)), protocmp.Transform()))
}

func TestUnmanagedNamespacesMayBeApart(t *testing.T) {
	s := Shape{Namespaces: 1, Services: 2, Pods: 3, UnmanagedNamespaces: 1, UnmanagedServices: 2, UnmanagedPods: 4}
	key := source.Key{Kind: kinds.Sidecar, Namespace: NewPods(s).Pod(s.Pods).Namespace, Name: "default"}
	require.NotEqual(t, s.Namespace(0), key.Namespace)
	require.NotContains(t, all(s, NewPods(s)), key)
	s.UnmanagedApart = true
	require.Equal(t, []string{"./*"}, all(s, NewPods(s))[key].Object.(*networkingv1.Sidecar).Spec.Egress[0].Hosts)
}

// TestEndpointsAreThePodsThatAreThere: whatever goes and comes, endpoints are the pods that are
// there, each once, and no address is given twice.
func TestEndpointsAreThePodsThatAreThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := shapes().Draw(t, "shape")
		p := NewPods(s)
		objects := all(s, p)
		apply := func(changes []source.Change) {
			for _, c := range changes {
				if c.Object == nil {
					require.NotNil(t, objects[c.Key].Object)
					delete(objects, c.Key)
				} else {
					objects[c.Key] = c
				}
			}
		}
		mark := Marker(0)
		gone := map[int]bool{}
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			if s.Pods == 0 {
				break
			}
			place := rapid.IntRange(0, s.Pods-1).Draw(t, "place")
			if gone[place] {
				mark++
				pod, changes := p.Replace(place, mark)
				require.Equal(t, mark, Marked([]byte(pod.Address)))
				apply(changes)
			} else {
				apply(p.Remove(place))
			}
			gone[place] = !gone[place]
		}
		check(t, s, objects)
	})
}

func check(t *rapid.T, s Shape, objects map[source.Key]source.Change) {
	pods, endpoints := map[string]string{}, map[string]string{}
	for _, c := range objects {
		switch o := c.Object.(type) {
		case *corev1.Pod:
			require.Empty(t, pods[o.Status.PodIP], "the address is another pod's")
			pods[o.Status.PodIP] = o.Namespace + "/" + o.Labels["app"]
		case *discoveryv1.EndpointSlice:
			require.LessOrEqual(t, len(o.Endpoints), sliceSize)
			for _, e := range o.Endpoints {
				require.Empty(t, endpoints[e.Addresses[0]], "it is an endpoint already")
				endpoints[e.Addresses[0]] = o.Namespace + "/" + o.Labels[discoveryv1.LabelServiceName]
				require.NotNil(t,
					objects[source.Key{Kind: kinds.Pod, Namespace: e.TargetRef.Namespace,
						Name: e.TargetRef.Name}].Object)
			}
		}
	}
	require.Equal(t, pods, endpoints)
}

// TestPodsBelongToServicesOfTheirPart: each pod is of a service of its part, at the place that the
// service says.
func TestPodsBelongToServicesOfTheirPart(t *testing.T) {
	s := Shape{
		Namespaces:          2,
		Services:            3,
		Pods:                7,
		VirtualServices:     3,
		UnmanagedNamespaces: 2,
		UnmanagedServices:   4,
		UnmanagedPods:       9,
		Gateways:            true,
	}
	require.NoError(t, s.Validate())
	require.Equal(t, 3+4+2, s.AllServices())
	require.Equal(t, 7+9+2, s.AllPods())
	pods := NewPods(s)
	for place := range s.AllPods() {
		service := s.ServiceOf(place)
		at, there := s.place(service, s.numberOf(place))
		require.True(t, there)
		require.Equal(t, place, at)
		pod := pods.Pod(place)
		require.Equal(t, s.Namespace(service), pod.Namespace)
		require.Equal(t, place >= 7+9, pod.Router)
		require.Equal(t, place >= 7 && place < 7+9, strings.HasPrefix(pod.Namespace, "perf-other-"))
	}
	route := s.Route(1, 0).Object.(*networkingv1.VirtualService)
	require.Equal(t, []string{"mesh", "perf-001/svc-00008"}, route.Spec.Gateways)
	gateway := s.gateway(8).Object.(*networkingv1.Gateway)
	require.Equal(t, "perf-001", gateway.Namespace)
	require.Equal(t, pods.Pod(s.FirstRouter() + 1).Labels["app"], gateway.Spec.Selector["app"])
}

func TestMarkersAreFoundInBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Marker(rapid.IntRange(1, int(MaxMarker)).Draw(t, "marker"))
		before, after := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "before"), rapid.SliceOfN(rapid.ByteRange(0, 31),
			0, 20).Draw(t, "after")
		older := Marker(rapid.IntRange(0, int(m)-1).Draw(t, "older"))
		for _, text := range []string{m.text(), m.address()} {
			body := fmt.Sprintf("%s%s\x18%s%s", older.text(), before, text, after)
			require.Equal(t, m, Marked([]byte(body)), "%q", body)
		}
	})
	for _, none := range []string{"", "perf-mark-", "perf-mark-123", "198.18.0", "198.17.0.1", "198.18.0.300", "198.18",
		"10.198.18.1"} {
		require.Zero(t, Marked([]byte(none)), none)
	}
}

func TestMarkersStandInChanges(t *testing.T) {
	s := Shape{Namespaces: 2, Services: 4, Pods: 4, VirtualServices: 1}
	const m = MaxMarker
	for _, changes := range [][]source.Change{{s.Route(0, m)}, {s.Endpoint(3, m)}, s.NewService(m)} {
		for _, c := range changes {
			require.Equal(t, m, Marked(fmt.Appendf(nil, "%v", c.Object)), c.Key)
		}
	}
	service := s.NewService(m)[1].Object.(*corev1.Service)
	require.Equal(t, "10.254.255.255", service.Spec.ClusterIP)
	require.Equal(t, "perf-000", service.Namespace)
}

func TestShapesThatCannotBeAreTold(t *testing.T) {
	for _, s := range []Shape{
		{}, {Namespaces: 2, Services: 1}, {Namespaces: 1, Services: MaxServices + 1}, {Namespaces: 1, Services: 1,
			Pods: -1},
		{Namespaces: 1, Services: 1, Pods: MaxPods + 1}, {Namespaces: 1, Services: 1, VirtualServices: 2},
		{Namespaces: 1, Services: 1, UnmanagedServices: 1}, {Namespaces: 1, Services: 1, UnmanagedNamespaces: 2,
			UnmanagedServices: 1},
		{Namespaces: 1, Services: 1, UnmanagedPods: 1}, {Namespaces: 1, Services: 1, UnmanagedNamespaces: -1},
	} {
		require.Error(t, s.Validate(), "%+v", s)
	}
}

func TestSpread(t *testing.T) {
	require.Equal(t, []int{0, 4, 8}, Spread(12, 3))
	require.Len(t, Spread(10, 10), 10)
	require.Empty(t, Spread(10, 0))
}

func FuzzMarked(f *testing.F) {
	f.Add([]byte("198.18.0.1\x18\x01 perf-mark-00000002"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if m := Marked(body); m < 0 || m > 99_999_999 {
			t.Fatal(m)
		}
	})
}
