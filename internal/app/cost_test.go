package app

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/heap"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// aChange is a kind of change to one object. Variant 0 is as the mesh has it; of a new object, that
// it is not there.
type aChange struct {
	name string
	of   func(variant int) source.Change
}

func edited[T any](o *T, edit func(*T)) *T {
	edit(o)
	return o
}

// The services that change, all in one namespace without a Sidecar.
var (
	plain    = meshgen.Number(7, meshgen.Plain)
	simple   = meshgen.Number(7, meshgen.Simple)
	database = meshgen.Number(7, meshgen.ContestTCP)
	external = meshgen.Number(7, meshgen.Listed)
	headless = meshgen.Number(7, meshgen.Headless)
	owner    = meshgen.Number(0, meshgen.ContestTCP) // has its port for most classes, many want it
)

func changes() []aChange {
	return append(serviceChanges(), policyChanges()...)
}

func serviceChanges() []aChange {
	return []aChange{
		{"port of a service", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.Service(simple), func(s *corev1.Service) {
				s.Spec.Ports[0].Port += int32(100 * v)
			}))
		}},
		{"port of a TCP service among many", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.Service(database), func(s *corev1.Service) {
				s.Spec.Ports[0].Port += int32(100 * v)
			}))
		}},
		{"target of a TCP service among many", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.Service(database), func(s *corev1.Service) {
				s.Spec.Ports[0].TargetPort.IntVal += int32(v)
			}))
		}},
		{"selector of a service", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.Service(simple), func(s *corev1.Service) {
				s.Spec.Selector["v"] = strconv.Itoa(v)
			}))
		}},
		{"endpoint added, then one more", func(v int) source.Change { return meshgen.Upsert(sliceWith(simple, v)) }},
		{"endpoint removed", func(v int) source.Change {
			if v == 0 {
				return meshgen.Upsert(meshgen.Slice(simple))
			}
			return meshgen.Upsert(sliceWith(simple, 9-v))
		}},
		{"endpoint of a headless service", func(v int) source.Change { return meshgen.Upsert(sliceWith(headless, v)) }},
		{"endpoint of a ServiceEntry", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.ServiceEntry(external), func(s *networkingv1.ServiceEntry) {
				s.Spec.Endpoints[0].Address = fmt.Sprintf("127.201.0.%d", 100+v)
			}))
		}},
		{"label of a pod that nothing selects by", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.Pod(plain, 0), func(p *corev1.Pod) {
				p.Labels["pod-template-hash"] = fmt.Sprintf("%03d", v)
			}))
		}},
	}
}

// sliceWith has so many endpoints more than the service has pods.
func sliceWith(i, more int) *discoveryv1.EndpointSlice {
	return edited(meshgen.Slice(i), func(s *discoveryv1.EndpointSlice) {
		for k := range more {
			s.Endpoints = append(s.Endpoints,
				discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("127.200.0.%d", 100+k)}})
		}
	})
}

func policyChanges() []aChange {
	return []aChange{
		{"VirtualService", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.VirtualService(plain), func(s *networkingv1.VirtualService) {
				s.Spec.Http[0].Name = fmt.Sprintf("edit-%02d", v)
			}))
		}},
		{"new VirtualService", func(v int) source.Change {
			o := edited(meshgen.Routes(simple), func(s *networkingv1.VirtualService) {
				s.Spec.Http[0].Name = fmt.Sprintf("edit-%02d", v)
			})
			if v%2 == 0 {
				return meshgen.Delete(o)
			}
			return meshgen.Upsert(o)
		}},
		{"VirtualService of TCP", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.VirtualService(owner), func(s *networkingv1.VirtualService) {
				s.Spec.Tcp[0].Match = []*networking.L4MatchAttributes{{
					DestinationSubnets: []string{fmt.Sprintf("127.0.0.%d", 100+v)},
				}}
			}))
		}},
		{"DestinationRule", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.DestinationRule(plain), func(s *networkingv1.DestinationRule) {
				s.Spec.TrafficPolicy = &networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{
					Http: &networking.ConnectionPoolSettings_HTTPSettings{Http2MaxRequests: int32(1000 + v)},
				}}
			}))
		}},
		{"AuthorizationPolicy", func(v int) source.Change {
			o := &securityv1.AuthorizationPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: meshgen.Namespace(plain), Name: "edited"},
			}
			o.Spec.Action = security.AuthorizationPolicy_DENY
			o.Spec.Rules = []*security.Rule{{To: []*security.Rule_To{{
				Operation: &security.Operation{Paths: []string{fmt.Sprintf("/%02d", v)}},
			}}}}
			if v == 0 {
				return meshgen.Delete(o)
			}
			return meshgen.Upsert(o)
		}},
		{"one of 1,000 AuthorizationPolicies of a namespace", func(v int) source.Change {
			o := meshgen.AuthorizationPolicy(policed, 0)
			o.Spec.Rules[0].To[0].Operation.Paths[0] = fmt.Sprintf("/%02d", v)
			return meshgen.Upsert(o)
		}},
		{"RequestAuthentication", func(v int) source.Change {
			return meshgen.Upsert(edited(meshgen.Tokens(policed), func(a *securityv1.RequestAuthentication) {
				a.Spec.JwtRules[0].Audiences = []string{fmt.Sprintf("%02d", v)}
			}))
		}},
		{"keys of an issuer", func(v int) source.Change { return meshgen.Upsert(meshgen.FetchedKeys(v)) }},
		{"Sidecar that lists services", func(v int) source.Change {
			return meshgen.Upsert(sidecarWith(meshgen.Narrow+1, v))
		}},
		{"Sidecar that lets in a namespace", func(v int) source.Change {
			return meshgen.Upsert(sidecarWith(meshgen.Wide+1, v))
		}},
	}
}

// sidecarWith lets in one service more than the namespace's Sidecar does.
func sidecarWith(namespace, v int) *networkingv1.Sidecar {
	return edited(meshgen.Sidecar(namespace), func(s *networkingv1.Sidecar) {
		if v > 0 {
			i := meshgen.Number(v, meshgen.Simple)
			s.Spec.Egress[0].Hosts = append(s.Spec.Egress[0].Hosts, meshgen.Namespace(i)+"/"+meshgen.Host(i))
		}
	})
}

// policed is the namespace of plain, which has 1,000 policies and tokens of an issuer.
const policed = 7

const (
	warmUp   = 2 // variants before those that are measured
	measured = 6
)

// rigOf is a mesh of so many services with a proxy of each class.
func rigOf(tb testing.TB, services int) *rig {
	r := newRig(tb, append(meshgen.Mesh{Services: services}.Objects(), meshgen.Security(policed)...))
	for _, p := range meshgen.Proxies() {
		r.connect(p)
	}
	r.settle()
	return r
}

// measure lets variants of a change happen, and undoes them.
func (r *rig) measure(c aChange) (costs []cost, least memory) {
	withoutCollection(func() {
		for v := range warmUp {
			r.costOf(c.of(1 + v))
		}
		for v := range measured {
			counts, m := r.costOf(c.of(1 + warmUp + v))
			costs = append(costs, counts)
			if v == 0 {
				least = m
			}
			least = least.min(m)
		}
		r.costOf(c.of(0))
	})
	return costs, least
}

// levelsMore is how many bytes all persistent trees together may cost a change more in a mesh ten
// times as large, however many classes see the change: a node or so on the path to each thing that
// changes.
const levelsMore = 4 << 10

// TestAChangeCostsTheSameInALargerMesh lets one change of each kind go through the whole pipeline,
// in a mesh of 1,000 services and in one of 10,000, with a proxy of each of 40 classes connected.
// All that can be counted is exactly equal.
//
// Bytes allocated are equal but for the depth of persistent trees, which is the logarithm of what
// they hold: a path in each index of the state that changes, and in the part of the sets that
// classes share.
//
// Under the race detector the larger mesh is of 2,000 services, and bytes allocated are not
// compared; `make test` runs it both ways.
func TestAChangeCostsTheSameInALargerMesh(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a mesh of 10,000 services")
	}
	services := 10000
	if raced {
		services = 2000
	}
	small, large := rigOf(t, 1000), rigOf(t, services)
	for _, c := range changes() {
		t.Run(c.name, func(t *testing.T) {
			few, memoryOfFew := small.measure(c)
			many, memoryOfMany := large.measure(c)
			require.Equal(t, few, many)
			require.NotZero(t, few[0].Generations)
			t.Logf("%+v", few[0])
			t.Logf("bytes to compile: %d and %d, to send: %d and %d", memoryOfFew.compile, memoryOfMany.compile,
				memoryOfFew.send, memoryOfMany.send)
			if raced {
				return
			}
			require.Less(t, memoryOfMany.compile, memoryOfFew.compile+levelsMore)
			require.InDelta(t, memoryOfFew.send, memoryOfMany.send, 512)
		})
	}
}

// TestATrustDomainReachesTheProxiesWithPolicies gives the trust domain an alias. Every class is
// compiled again, because the mesh configuration is an input of all; the one proxy with policies
// gets these, and nobody gets anything else.
func TestATrustDomainReachesTheProxiesWithPolicies(t *testing.T) {
	r := rigOf(t, 100)
	r.costOf(meshgen.Upsert(meshgen.TrustDomains("first.test")))
	counts, _ := r.costOf(meshgen.Upsert(meshgen.TrustDomains("other.test")))
	require.Equal(t, 1, counts.Sent.Resources, "%+v", counts)
	require.Zero(t, counts.Sent.Removed)
	require.Equal(t, uint64(1), counts.Misses-counts.Equal, "%+v", counts)
}

// withoutEffect are changes that alter no output of any class.
func withoutEffect() []aChange {
	return []aChange{
		{"annotation of a service", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.Service(simple), func(s *corev1.Service) {
				s.Annotations = map[string]string{"note": "x"}
			}))
		}},
		{"selector of a service", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.Service(simple), func(s *corev1.Service) {
				s.Spec.Selector["more"] = "x"
			}))
		}},
		{"port of a service that nobody sees", func(int) source.Change {
			i := meshgen.Number(7, meshgen.Hidden)
			return meshgen.Upsert(edited(meshgen.Service(i), func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }))
		}},
		{"label of a namespace", func(int) source.Change {
			n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name:   meshgen.Namespace(7),
				Labels: map[string]string{"team": "x"},
			}}
			return meshgen.Upsert(n)
		}},
		{"label of a pod", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.Pod(plain, 0), func(p *corev1.Pod) {
				p.Labels["pod-template-hash"] = "x"
			}))
		}},
		{"node of a pod", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.Pod(plain, 1), func(p *corev1.Pod) { p.Spec.NodeName = "n" }))
		}},
		{"order of endpoints", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.Slice(plain), func(s *discoveryv1.EndpointSlice) {
				s.Endpoints[0], s.Endpoints[1] = s.Endpoints[1], s.Endpoints[0]
			}))
		}},
		{"another slice with the same endpoints", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.Slice(plain), func(s *discoveryv1.EndpointSlice) {
				s.Name += "-copy"
			}))
		}},
		{"VirtualService that is exported to nobody", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.Routes(simple), func(s *networkingv1.VirtualService) {
				s.Spec.ExportTo = []string{"~"}
			}))
		}},
		{"sourceLabels that no proxy has", func(int) source.Change {
			i := meshgen.Number(7, meshgen.Matched)
			return meshgen.Upsert(edited(meshgen.VirtualService(i), func(s *networkingv1.VirtualService) {
				s.Spec.Http = append([]*networking.HTTPRoute{{
					Match:          []*networking.HTTPMatchRequest{{SourceLabels: map[string]string{"app": "nobody"}}},
					DirectResponse: &networking.HTTPDirectResponse{Status: 404},
				}}, s.Spec.Http...)
			}))
		}},
		{"DestinationRule for a host that nobody has", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.DestinationRule(plain), func(r *networkingv1.DestinationRule) {
				r.Name, r.Spec.Host = "nobody", "nobody.example.com"
			}))
		}},
		{"order of a Sidecar's hosts", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.Sidecar(meshgen.Narrow), func(s *networkingv1.Sidecar) {
				hosts := s.Spec.Egress[0].Hosts
				hosts[0], hosts[1] = hosts[1], hosts[0]
			}))
		}},
		{"ServiceEntry that is exported to nobody", func(int) source.Change {
			return meshgen.Upsert(edited(meshgen.ServiceEntry(external), func(s *networkingv1.ServiceEntry) {
				s.Name, s.Spec.Hosts, s.Spec.ExportTo = "nobody", []string{"nobody.example.com"}, []string{"~"}
			}))
		}},
	}
}

func TestAChangeThatAltersNoOutputSendsNothing(t *testing.T) {
	r := rigOf(t, 1000)
	for _, c := range withoutEffect() {
		t.Run(c.name, func(t *testing.T) {
			counts, _ := r.costOf(c.of(1))
			require.Zero(t, counts.Sent)
		})
	}
}

// A list that is sent again with equal content, as after a lost watch, is all new pointers.
func TestARelistWithEqualContentCostsNoTranslation(t *testing.T) {
	r := rigOf(t, 1000)
	counts, _ := r.costOf(append(meshgen.Mesh{Services: 1000}.Objects(), meshgen.Security(policed)...)...)
	require.Zero(t, counts.Generations)
	require.Zero(t, counts.Units)
	require.Zero(t, counts.Hits+counts.Misses)
	require.Zero(t, counts.Sent)
}

// replica is one of many pods of a StatefulSet, each with a proxy: they differ in all that only
// tells them apart.
func replica(n int) *corev1.Pod {
	p := meshgen.Pod(plain, 0)
	p.Name = fmt.Sprintf("replica-%d", n)
	p.Labels["pod-template-hash"] = fmt.Sprintf("hash-%d", n)
	p.Labels["statefulset.kubernetes.io/pod-name"] = p.Name
	p.Labels["apps.kubernetes.io/pod-index"] = strconv.Itoa(n)
	p.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", n%3)
	p.Spec.NodeName = fmt.Sprintf("node-%d", n%97)
	p.Status.PodIP = fmt.Sprintf("127.210.%d.%d", n/250, 1+n%250)
	return p
}

// bytesOfAProxy is how much memory one more proxy of a class may cost.
const bytesOfAProxy = 2 << 10

// TestAThousandReplicasCostOneEncoding connects 1,000 proxies of one class. Nothing is compiled or
// encoded but what the first of them needed; what each costs is its entry with the compiler, its
// connection and its session.
func TestAThousandReplicasCostOneEncoding(t *testing.T) {
	const replicas, forerunners = 1000, 100
	objects := meshgen.Mesh{Services: 1000}.Objects()
	for n := range replicas + forerunners {
		objects = append(objects, meshgen.Upsert(replica(n)))
	}
	r := newRig(t, objects)
	nodes := make([]*serve.Node, 0, replicas+forerunners) // which their streams have
	for n := range replicas + forerunners {
		pod := replica(n)
		nodes = append(nodes, nodeOf(meshgen.Proxy{
			Namespace:     pod.Namespace,
			Pod:           pod.Name,
			Labels:        pod.Labels,
			Address:       pod.Status.PodIP,
			HTTPProxyPort: 15080,
		}))
	}
	connect := func(n int) *client { return r.connectNode(nodes[n]) }
	first := connect(replicas)
	r.settle()
	early := []*client{first} // with whom comes what all need once
	for n := range forerunners - 1 {
		early = append(early, connect(replicas+1+n))
		r.clients = r.clients[:1]
	}
	type stream struct {
		conn    *fanout.Conn
		session *session.Session
	}
	streams := make([]stream, 0, replicas)
	before, was := r.counts(), heap.InUse().Heap
	for n := range replicas {
		c := connect(n)
		require.Equal(t, first.frames, c.frames, "each frame is the first one's")
		require.Equal(t, first.conn.Class(), c.conn.Class())
		streams = append(streams, stream{c.conn, c.session})
		r.clients = r.clients[:1] // what a client keeps is only this test's
	}
	each := (heap.InUse().Heap - was) / replicas
	runtime.KeepAlive(streams)
	runtime.KeepAlive(early)
	runtime.KeepAlive(nodes)
	after := r.counts()
	require.Equal(t, before.Hits+before.Misses, after.Hits+after.Misses)
	require.Equal(t, before.Edits, after.Edits)
	t.Logf("%d bytes for each proxy", each)
	if !raced {
		require.LessOrEqual(t, each, int64(bytesOfAProxy))
	}
}
