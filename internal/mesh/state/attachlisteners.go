package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A Gateway has the listeners of ListenerSets beside its own. All later steps see one list: of what
// cannot be told apart, the Gateway's own listener is in force, then that of the oldest set.

// serve returns a Gateway of Lateen's with all its listeners, nil if there is none of this name.
func (a *attachments) serve(s *Snapshot, k source.Key) *model.ServedGateway {
	g := s.kubernetesGateway(k.Namespace, k.Name)
	if g == nil || !s.serves(g.Class) {
		return nil
	}
	out := &model.ServedGateway{KubernetesGateway: *g}
	out.Listeners = slices.Clone(g.Listeners)
	taken := takenPorts{}
	for i := range out.Listeners {
		a.verifyClients(s, g, &out.Listeners[i])
		taken.add(&out.Listeners[i])
	}
	for set := range s.listenerSetsOf(g.Namespace, g.Name) {
		if !s.letsAttach(g, set) {
			continue
		}
		open := false
		for _, l := range set.Listeners {
			l.Set = model.ObjectName{Namespace: set.Namespace, Name: set.Name}
			a.verifyClients(s, g, &l)
			taken.settle(g, &l)
			taken.add(&l)
			open = open || l.IsOpen() && hasCertificates(&l, s.resolvedRefs(g, &l))
			out.Listeners = append(out.Listeners, l)
		}
		if open {
			out.Attached++
		}
	}
	return out
}

// letsAttach reports whether the listeners of a set count. Nothing attaches to a Gateway that is
// not accepted itself.
func (s *Snapshot) letsAttach(g *model.KubernetesGateway, set *model.ListenerSet) bool {
	if !g.Accepted.Status {
		return false
	}
	var labels model.Labels
	if g.Sets.ByLabels() {
		labels = s.namespaceLabels(set.Namespace)
	}
	return g.Sets.Selects(g.Namespace, set.Namespace, labels)
}

// takenPorts are the listeners in force of each port.
type takenPorts map[uint16]*takenPort

type takenPort struct {
	first *model.Listener
	hosts map[model.Host]bool
}

func (t takenPorts) add(l *model.Listener) {
	if !l.IsOpen() {
		return
	}
	if t[l.Port] == nil {
		t[l.Port] = &takenPort{first: l, hosts: map[model.Host]bool{}}
	}
	t[l.Port].hosts[l.Host] = true
}

// settle closes a listener of a set that cannot be told apart from one that comes before it. It
// does not say which that is: it may be another tenant's.
func (t takenPorts) settle(g *model.KubernetesGateway, l *model.Listener) {
	port := t[l.Port]
	if port == nil || !l.IsOpen() {
		return
	}
	reason := model.ConflictOf(port.first, l)
	if reason != model.ProtocolConflict {
		reason = ""
		if port.hosts[l.Host] {
			reason = model.HostnameConflict
		}
	}
	if reason == "" {
		return
	}
	message := fmt.Sprintf("a listener that comes before it at Gateway %s wants the same of port %d", g.Name, l.Port)
	l.Conflicted = model.Condition{Status: true, Reason: reason, Message: message}
	l.Accepted = model.Condition{Reason: reason, Message: message}
}

// verifyClients has a listener of HTTPS verify the certificates of clients, if its Gateway says so.
// Without any authority it is closed: open, it would take anybody.
func (a *attachments) verifyClients(s *Snapshot, g *model.KubernetesGateway, l *model.Listener) {
	if len(g.Clients) == 0 || l.TLS == nil || !l.TLS.Mode.Terminates() || !l.Protocol.IsHTTP() {
		return
	}
	v := g.Clients[0]
	if i := slices.IndexFunc(g.Clients, func(v model.ClientValidation) bool { return v.Port == l.Port }); i > 0 {
		v = g.Clients[i]
	}
	if !v.Verifies {
		return
	}
	authorities, refs := s.clientAuthorities(g, &v)
	if !refs.Status && l.ResolvedRefs.Status {
		l.ResolvedRefs = refs
	}
	if authorities == "" {
		l.Accepted = model.Condition{Reason: noValidCACertificate, Message: refs.Message}
		return
	}
	t := *l.TLS
	t.Mode, t.Authorities = model.ServerMutual, authorities
	if v.AnyClient {
		t.Mode, t.AnyClient = model.ServerOptionalMutual, true
	}
	l.TLS = a.tls.Canonical(&t)
}

// clientAuthorities returns the certificates of all ConfigMaps that can be used, and what is wrong
// with the first of the others.
func (s *Snapshot) clientAuthorities(
	g *model.KubernetesGateway, v *model.ClientValidation,
) (string, model.Condition) {
	refs, certificates := v.ResolvedRefs, ""
	for _, name := range v.Bundles {
		wrong := s.missingGrant(fromGateway(g), kinds.ConfigMap, name)
		if wrong.Reason == "" {
			one, mistake := s.authoritiesIn(name.Namespace, name.Name)
			certificates += one
			wrong = model.Condition{Reason: invalidCACertificateRef, Message: mistake}
		}
		if wrong.Message != "" && refs.Status {
			refs = wrong
		}
	}
	return certificates, refs
}

// listenerSetStatus returns the status of a ListenerSet, nil if its parent is no Gateway of
// Lateen's.
func (a *attachments) listenerSetStatus(s *Snapshot, k source.Key) *model.GatewayAPIStatus {
	set := s.listenerSet(k.Namespace, k.Name)
	if set == nil {
		return nil
	}
	g := s.servedGateway(gatewayKey(set.Parent.Namespace, set.Parent.Name))
	if g == nil {
		return nil
	}
	out := &model.GatewayAPIStatus{Meta: set.Meta}
	refuse := func(reason, message string) *model.GatewayAPIStatus {
		out.Accepted = model.Condition{Reason: reason, Message: message}
		out.Programmed = out.Accepted
		return out
	}
	switch {
	case !g.Accepted.Status:
		return refuse("ParentNotAccepted", fmt.Sprintf("the Gateway %s is not accepted", g.Name))
	case !s.letsAttach(g, set):
		return refuse("NotAllowed", fmt.Sprintf(
			"allowedListeners of the Gateway %s has no ListenerSets of namespace %s", g.Name, set.Namespace,
		))
	}
	own := model.ObjectName{Namespace: set.Namespace, Name: set.Name}
	var closed []string
	unreached := s.unreached(g)
	for i := range g.Listeners {
		if g.Listeners[i].Set != own {
			continue
		}
		l := a.listenerStatus(s, g, &g.Listeners[i], unreached)
		if !l.Accepted.Status || !l.Programmed.Status {
			closed = append(closed, l.Name)
		}
		out.Listeners = append(out.Listeners, l)
	}
	message := "listeners that are not in force: " + strings.Join(closed, ", ")
	switch {
	case len(closed) == len(out.Listeners):
		return refuse(listenersNotValid, message)
	case len(closed) > 0:
		out.Accepted = model.Condition{Status: true, Reason: listenersNotValid, Message: message}
	default:
		out.Accepted = model.Condition{Status: true, Reason: "Accepted"}
	}
	out.Programmed = model.Condition{Status: true, Reason: "Programmed"}
	return out
}

// listenersNotValid is a reason of the specification.
const listenersNotValid = "ListenersNotValid"
