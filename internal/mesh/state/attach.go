package state

import (
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/forkmap"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Objects of the Gateway API mean something only together: a route by the listeners that it
// attaches to, a listener by the class of its Gateway, and both by grants of other namespaces. A
// batch resolves anew the objects that its changes concern, and no others. What they come to are
// Gateways and VirtualServices as all others, and statuses. Nobody after this needs to know of
// grants, parents or isolation.
//
//	GatewayClass ─┐
//	Gateway ──────┼─► resolveGateway ─► a Gateway for each listener ─────────┐
//	Service, Secret                                                          ├─► snapshot, delta
//	ReferenceGrant ─► resolveRoute ──► VirtualServices by hosts, a status ───┤
//	HTTPRoute ────┘                  └► routes of each listener, counted ─► status of the Gateway
//	              └─► resolveServices ► a VirtualService of a Service's callers ┤
//	BackendTLSPolicy, ConfigMap ► resolveBackends ► a BackendPolicy of a Service ┘

// changedAttachments are the changes of a batch to objects that only attachments look at.
type changedAttachments struct {
	classes    []Pair[model.GatewayClass]
	gateways   []Pair[model.KubernetesGateway]
	routes     []Pair[model.AttachedRoute]
	grants     []Pair[model.ReferenceGrant]
	namespaces []Pair[model.Namespace]
	backendTLS []Pair[model.BackendTLSPolicy]
	bundles    []Pair[model.CertificateBundle]
	sets       []Pair[model.ListenerSet]
}

func (c *changedAttachments) isEmpty() bool {
	return len(c.classes)+len(c.gateways)+len(c.routes)+len(c.grants)+len(c.namespaces)+
		len(c.backendTLS)+len(c.bundles)+len(c.sets) == 0
}

// noting returns the special step of a table that notes each change in a list of the batch.
func noting[T any](list func(*batch) *[]Pair[T]) func(*batch, *T, *T) *T {
	return func(b *batch, old, now *T) *T {
		to := list(b)
		*to = append(*to, Pair[T]{Old: old, New: now})
		return now
	}
}

// attachments are what the objects of the Gateway API have come to, for the Writer.
type attachments struct {
	objects *forkmap.Map[source.Key, []model.Object]
	// attached counts the routes of each listener, by the "namespace/name" of its Gateway.
	attached *forkmap.Map[string, int32]
	// leads has what each route leads to by its Gateways, sorted, and leading how many routes do.
	leads *forkmap.Map[source.Key, []lead]
	// leading are by host and Gateway. The maps by Gateway never change.
	leading *forkmap.Map[model.Host, map[string]int32]
	canonical
}

// canonical are the parts of what attachments come to that are the same wherever they are equal.
type canonical struct {
	policies  *model.Pool[model.TrafficPolicy]
	routes    *model.Pool[model.HTTPRoute]
	matches   *model.Pool[model.HTTPMatch]
	tcp       *model.Pool[model.TCPRoute]
	tlsRoutes *model.Pool[model.TLSRoute]
	l4Matches *model.Pool[model.L4Match]
	tls       *model.Pool[model.ServerTLS]
}

func newAttachments() *attachments {
	return &attachments{
		objects: forkmap.New[source.Key, []model.Object](), attached: forkmap.New[string, int32](),
		leads: forkmap.New[source.Key, []lead](), leading: forkmap.New[model.Host, map[string]int32](),
		canonical: canonical{
			policies: model.NewPool[model.TrafficPolicy](),
			routes:   model.NewPool[model.HTTPRoute](), matches: model.NewPool[model.HTTPMatch](),
			tcp: model.NewPool[model.TCPRoute](), tlsRoutes: model.NewPool[model.TLSRoute](),
			l4Matches: model.NewPool[model.L4Match](),
			tls:       model.NewPool[model.ServerTLS](),
		},
	}
}

func (a *attachments) fork() *attachments {
	return &attachments{
		objects: a.objects.Fork(), attached: a.attached.Fork(), leads: a.leads.Fork(), leading: a.leading.Fork(),
		canonical: a.canonical,
	}
}

// objectSet is a set of objects, to be worked off in the order of their keys.
type objectSet map[source.Key]bool

func (s objectSet) add(m *model.Meta) { s[m.Key()] = true }

func (s objectSet) sorted() []source.Key { return slices.SortedFunc(maps.Keys(s), source.Key.Compare) }

// step resolves what the batch concerns. It costs nothing in a mesh without the Gateway API.
func (a *attachments) step(b *batch) {
	if b.attach.isEmpty() && b.next.attachesNothing() {
		return
	}
	c := a.concerned(b)
	for _, p := range b.attach.classes {
		a.resolveClass(b, p.Either())
	}
	for _, k := range c.gateways.sorted() {
		a.put(b, k, a.resolveGateway(b.next, k))
	}
	for _, k := range c.routes.sorted() {
		a.resolveRoute(b, k, c)
	}
	a.resolveBackends(b, c.backends)
	a.resolveServices(b, c.routes)
	for _, k := range c.gateways.sorted() {
		a.putStatus(b, k, a.gatewayStatus(b.next, k))
	}
	for _, k := range c.sets.sorted() {
		a.putStatus(b, k, a.listenerSetStatus(b.next, k))
	}
}

// attachesNothing reports whether there are no Gateways, routes and policies of the Gateway API, so
// that other changes mean nothing to it.
func (s *Snapshot) attachesNothing() bool {
	return s.kubernetesGateways.by[kubernetesGatewaysByName].len()+
		s.attachedRoutes.by[attachedRoutesByName].len()+
		s.backendTLSPolicies.by[backendTLSPoliciesByName].len() == 0
}

// put puts the listeners or routes of an object into the snapshot, beside its status.
func (a *attachments) put(b *batch, k source.Key, now []model.Object) {
	a.replace(b, k, append(now, a.status(k)...))
}

// putStatus puts the status of an object into the snapshot; nil is none.
func (a *attachments) putStatus(b *batch, k source.Key, status *model.GatewayAPIStatus) {
	now := slices.DeleteFunc(slices.Clone(a.objects.Get(k)), isStatus)
	if status != nil {
		now = append(now, status)
	}
	a.replace(b, k, now)
}

func (a *attachments) replace(b *batch, k source.Key, now []model.Object) {
	kept, _ := b.replace(a.objects.Get(k), now)
	if len(kept) == 0 {
		a.objects.Drop(k)
		return
	}
	a.objects.Put(k, kept)
}

// status returns the present status of an object as a list of at most one.
func (a *attachments) status(k source.Key) []model.Object {
	return slices.DeleteFunc(slices.Clone(a.objects.Get(k)), func(o model.Object) bool { return !isStatus(o) })
}

func isStatus(o model.Object) bool {
	_, is := o.(*model.GatewayAPIStatus)
	return is
}

func gatewayNameLabels() []string { return []string{model.GatewayNameLabel, model.OldGatewayNameLabel} }

// resolveClass gives a class its status, if it is Lateen's.
func (a *attachments) resolveClass(b *batch, changed *model.GatewayClass) {
	var status *model.GatewayAPIStatus
	if c := b.next.gatewayClass(changed.Name); c != nil && c.Controller == model.GatewayController {
		status = &model.GatewayAPIStatus{Meta: c.Meta, Accepted: c.Accepted}
	}
	a.putStatus(b, changed.Key(), status)
}

// serves reports whether Gateways of a class are Lateen's.
func (s *Snapshot) serves(class string) bool {
	if c := s.gatewayClass(class); c != nil {
		return c.Controller == model.GatewayController && c.Accepted.Status
	}
	return slices.Contains(model.BuiltInGatewayClasses(), class)
}

// servedGateway returns a Gateway of a class that is Lateen's, with all its listeners; nil if there
// is none of this name.
func (s *Snapshot) servedGateway(k source.Key) *model.KubernetesGateway {
	if served := s.served(k); served != nil {
		return &served.KubernetesGateway
	}
	return nil
}

func (s *Snapshot) served(k source.Key) *model.ServedGateway {
	found, _ := s.servedGateways.by[servedGatewaysByName].get(join(k.Namespace, k.Name))
	return found
}

func gatewayKey(namespace, name string) source.Key {
	return source.Key{Kind: kinds.KubernetesGateway, Namespace: namespace, Name: name}
}
