package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// atEachSize measures in meshes of each size. What measure prepares is shared by all changes and
// all runs of a size.
func atEachSize(b *testing.B, measure func(b *testing.B, services int)) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) { measure(b, n) })
	}
}

// change measures one change.
func change(b *testing.B, name string, measure func(b *testing.B)) {
	b.Run("change="+name, func(b *testing.B) {
		b.ReportAllocs()
		measure(b)
	})
}

// subject is the service that changes: one of kind Plain, with routes and subsets, that all see
// whose Sidecar does not leave it out. No proxy is in its namespace, so that no change moves one to
// another class.
const subject = 25

// editOf makes variants of one change, all different, and the object as it was before any of them.
type editOf struct {
	name     string
	edit     func(variant int) source.Change
	original func() source.Change
}

// edits are the changes whose cost is measured in every stage that they pass.
var edits = []editOf{
	{"endpoint", editEndpoint, func() source.Change { return meshgen.Upsert(meshgen.Slice(subject)) }},
	{"service", editService, func() source.Change { return meshgen.Upsert(meshgen.Service(subject)) }},
	{"virtualservice", editRoutes, func() source.Change { return meshgen.Upsert(meshgen.Routes(subject)) }},
	{"destinationrule", editRule, func() source.Change { return meshgen.Upsert(meshgen.DestinationRule(subject)) }},
}

// eachEdit measures each of some edits, and restores the mesh after it: so no result depends on
// what was measured before.
func eachEdit(b *testing.B, edits []editOf, restore func(...source.Change), measure func(b *testing.B, e editOf)) {
	for _, e := range edits {
		change(b, e.name, func(b *testing.B) { measure(b, e) })
		restore(e.original())
	}
}

// editEndpoint gives the subject a third endpoint, at an address of the variant's.
func editEndpoint(variant int) source.Change {
	s := meshgen.Slice(subject)
	s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
		Addresses: []string{fmt.Sprintf("127.%d.%d.%d", 100+variant>>16%100, byte(variant>>8), byte(variant))},
	})
	return meshgen.Upsert(s)
}

// editService gives the subject a second port.
func editService(variant int) source.Change {
	s := meshgen.Service(subject)
	s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
		Name: "http-more", Port: int32(1024 + variant%20000), TargetPort: intstr.FromInt32(8080),
	})
	return meshgen.Upsert(s)
}

// editRoutes gives the subject's routes a timeout.
func editRoutes(variant int) source.Change {
	v := meshgen.Routes(subject)
	v.Spec.Http[0].Timeout = durationpb.New(time.Duration(1+variant) * time.Millisecond)
	return meshgen.Upsert(v)
}

// editRule limits the connections to the subject.
func editRule(variant int) source.Change {
	r := meshgen.DestinationRule(subject)
	r.Spec.TrafficPolicy = &networking.TrafficPolicy{ConnectionPool: &networking.ConnectionPoolSettings{
		Tcp: &networking.ConnectionPoolSettings_TCPSettings{MaxConnections: int32(1 + variant)},
	}}
	return meshgen.Upsert(r)
}

// editSidecar changes what the proxies of one namespace see: by turns, one or another service of a
// namespace beside it.
func editSidecar(variant int) source.Change {
	s := meshgen.Sidecar(meshgen.Wide)
	other := meshgen.Number(1+variant%2, meshgen.Plain)
	hosts := &s.Spec.Egress[0].Hosts
	*hosts = append(*hosts, meshgen.Namespace(other)+"/"+meshgen.Host(other))
	return meshgen.Upsert(s)
}

// policed is the namespace with 1,000 policies and 200 EnvoyFilters, of a proxy that sees all that
// is exported to it.
const policed = 2

// policyEdits are changes of what a proxy enforces. They need what meshgen.Security has.
var policyEdits = []editOf{
	{"authorizationpolicy", editPolicy, func() source.Change {
		return meshgen.Upsert(meshgen.AuthorizationPolicy(policed, 0))
	}},
	{"keyset", editKeys, func() source.Change { return meshgen.Upsert(meshgen.FetchedKeys(0)) }},
	{"trustdomain", editTrustDomain, func() source.Change { return meshgen.Delete(meshgen.TrustDomains("")) }},
}

// editPolicy has one of the 1,000 policies refuse another path.
func editPolicy(variant int) source.Change {
	p := meshgen.AuthorizationPolicy(policed, 0)
	p.Spec.Rules[0].To[0].Operation.Paths = []string{fmt.Sprintf("/admin/%06d", variant)}
	return meshgen.Upsert(p)
}

// editKeys replaces the fetched keys of the issuer whose tokens one workload accepts.
func editKeys(variant int) source.Change { return meshgen.Upsert(meshgen.FetchedKeys(variant)) }

// filterEdits need what meshgen.Filters has.
var filterEdits = []editOf{{"envoyfilter", editFilter, func() source.Change { return editFilter(0) }}}

// editFilter changes the script of one of the 200 EnvoyFilters.
func editFilter(variant int) source.Change {
	return meshgen.Upsert(meshgen.EnvoyFilter(policed, 0, variant))
}

// editTrustDomain gives the trust domain another alias.
func editTrustDomain(variant int) source.Change {
	return meshgen.Upsert(meshgen.TrustDomains(fmt.Sprintf("old-%06d.test", variant)))
}

// upstream is a mesh as far as the world.
type upstream struct {
	tb        testing.TB
	converter *convert.Converter
	writer    *state.Writer
	variants  int
}

// newUpstream makes the world of a mesh, and returns with it the delta from nothing.
func newUpstream(tb testing.TB, services int) (*upstream, *state.Delta) {
	u := &upstream{tb: tb, converter: convert.New(convert.Options{}), writer: state.NewWriter()}
	_, d := u.writer.Apply(u.convert(meshgen.Mesh{Services: services}.Objects()...))
	return u, d
}

func (u *upstream) convert(changes ...source.Change) []state.Update {
	updates := make([]state.Update, len(changes))
	for i, c := range changes {
		r := u.converter.Convert(c, model.DefaultMesh())
		require.Empty(u.tb, r.Problems)
		updates[i] = state.Update{Key: c.Key, Objects: r.Objects}
	}
	return updates
}

// variant is a number that no edit had before.
func (u *upstream) variant() int {
	u.variants++
	return u.variants
}

// next makes one more generation.
func (u *upstream) next(changes ...source.Change) *state.Delta {
	_, d := u.writer.Apply(u.convert(changes...))
	return d
}

// Proxies whose classes are measured: the gateway, two that see all that is exported to them, one
// whose Sidecar lets in its own namespace, and one whose Sidecar names three services.
const (
	gatewayProxy = 0
	openProxy    = 1
	otherProxy   = 2
	wideProxy    = 20
	narrowProxy  = 30
)

// compiled is a mesh as far as the states of classes.
type compiled struct {
	*upstream
	compiler *compile.Compiler
	proxies  []meshgen.Proxy
	classes  map[int]resource.ClassID // by proxy
	states   map[resource.ClassID]resource.State
}

// newCompiled compiles the classes of some proxies, or of all 40.
func newCompiled(tb testing.TB, services int, proxies ...int) *compiled {
	u, d := newUpstream(tb, services)
	c := &compiled{
		upstream: u,
		proxies:  meshgen.Proxies(),
		classes:  map[int]resource.ClassID{},
		states:   map[resource.ClassID]resource.State{},
	}
	c.compiler = compile.NewCompiler(compile.Refusals{
		Endpoint: func(e model.Endpoint, err error) { tb.Errorf("%v: %v", e, err) },
		Resource: func(name string, err error) { tb.Errorf("%s: %v", name, err) },
	})
	c.compiler.Advance(d, func(compile.Step) {})
	if len(proxies) == 0 {
		for i := range c.proxies {
			proxies = append(proxies, i)
		}
	}
	for _, i := range proxies {
		c.compiler.Join(factsOf(c.proxies[i]), func(_ *compile.Member, at compile.Placement) {
			c.classes[i], c.states[at.Class] = at.Class, at.State
		})
	}
	require.Len(tb, c.states, len(proxies), "each proxy is of a class of its own")
	c.next(editEndpoint(0)) // the first generation also tells what was found wrong when the classes were compiled
	return c
}

// next makes one more generation, with its states.
func (c *compiled) next(changes ...source.Change) {
	c.compiler.Advance(c.upstream.next(changes...), func(s compile.Step) {
		for _, changed := range s.Changed {
			c.states[changed.Class] = changed.State
		}
	})
}

// state is that of a proxy.
func (c *compiled) state(proxy int) resource.State { return c.states[c.classes[proxy]] }

// step is the state of a proxy before and after one change.
func (c *compiled) step(proxy int, edit func(variant int) source.Change) (before, after resource.State) {
	before = c.state(proxy)
	c.next(edit(c.variant()))
	return before, c.state(proxy)
}

func factsOf(p meshgen.Proxy) compile.Facts {
	f := compile.Facts{Proxy: scope.Proxy{
		Address:   p.Address,
		Namespace: p.Namespace,
		Name:      p.Pod,
		Labels:    model.LabelsOf(p.Labels),
		Settings:  scope.Settings{HTTPProxyPort: p.HTTPProxyPort, HTTP10: p.HTTP10, FiltersApart: true},
	}}
	if p.Gateway {
		f.Proxy.Type = scope.Router
	}
	return f
}
