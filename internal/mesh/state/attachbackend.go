package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// A BackendTLSPolicy is for Services of its namespace. All policies for one Service come to one
// BackendPolicy: for each port and for the rest the oldest policy counts.

// The reasons of the specification for policies.
const (
	targetNotFound          = "TargetNotFound"
	conflicted              = "Conflicted"
	noValidCACertificate    = "NoValidCACertificate"
	invalidCACertificateRef = "InvalidCACertificateRef"
)

// lead says that routes of a Gateway lead to a host.
type lead struct {
	gateway string // "namespace/name"
	host    model.Host
}

func compareLeads(a, b lead) int {
	return cmp.Or(cmp.Compare(a.gateway, b.gateway), cmp.Compare(a.host, b.host))
}

// leadsOf returns where a route leads, by the Gateways that it attaches to.
func leadsOf(r *model.AttachedRoute, status *model.GatewayAPIStatus) []lead {
	if r == nil {
		return nil
	}
	var all []lead
	for _, listener := range listenersOf(status) {
		gateway, _, _ := strings.Cut(listener, "~")
		for host := range destinationsOf(r) {
			if host != "" {
				all = append(all, lead{gateway, host})
			}
		}
	}
	slices.SortFunc(all, compareLeads)
	return slices.Compact(all)
}

// countLeads counts where a route leads. Hosts that a Gateway begins or ceases to lead to are added
// to those whose policies are looked at again: their statuses name the Gateway.
func (a *attachments) countLeads(k source.Key, now []lead, hosts hostSet) {
	was := a.leads.Get(k)
	add := func(l lead, n int32) {
		before, routes := a.addLeading(l, n)
		if before == 0 || routes == 0 {
			hosts[l.host] = true
		}
	}
	recount(was, now, add)
	if len(now) == 0 {
		a.leads.Drop(k)
		return
	}
	a.leads.Put(k, now)
}

// addLeading counts that so many more routes of a Gateway lead to a host. It returns how many did
// and do.
func (a *attachments) addLeading(l lead, more int32) (before, now int32) {
	counts := maps.Clone(a.leading.Get(l.host))
	if counts == nil {
		counts = map[string]int32{}
	}
	before = counts[l.gateway]
	now = before + more
	if counts[l.gateway] = now; now == 0 {
		delete(counts, l.gateway)
	}
	if len(counts) == 0 {
		a.leading.Drop(l.host)
	} else {
		a.leading.Put(l.host, counts)
	}
	return before, now
}

// resolveBackends makes the policies of hosts anew, and the statuses of all that are for them.
func (a *attachments) resolveBackends(b *batch, hosts hostSet) {
	if len(b.attach.backendTLS)+b.next.backendTLSPolicies.by[backendTLSPoliciesByName].len() == 0 {
		return
	}
	policies := objectSet{}
	for _, p := range b.attach.backendTLS {
		policies.add(&p.Either().Meta)
		for _, changed := range []*model.BackendTLSPolicy{p.Old, p.New} {
			if changed != nil {
				hosts.addTargets(changed)
			}
		}
	}
	for _, p := range b.attach.bundles {
		at := join(p.Either().Namespace, p.Either().Name)
		for policy := range b.next.backendTLSPolicies.by[backendTLSPoliciesByBundle].under(at) {
			hosts.addTargets(policy)
		}
	}
	for _, p := range b.delta.Services {
		hosts[p.Either().Host] = true
	}
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		for p := range b.next.backendTLSOf(host) {
			policies.add(&p.Meta)
		}
		a.put(b, source.Key{Kind: kinds.BackendTLSPolicy, Name: string(host)}, a.backendPolicy(b.next, host))
	}
	for _, k := range policies.sorted() {
		a.putStatus(b, k, a.backendTLSStatus(b.next, k))
	}
}

func (s hostSet) addTargets(p *model.BackendTLSPolicy) {
	for _, t := range p.Targets {
		s[t.Host] = true
	}
}

// backendPolicy returns what all policies for a host come to.
func (a *attachments) backendPolicy(s *Snapshot, host model.Host) []model.Object {
	svc := s.kubernetesService(host)
	if svc == nil {
		return nil
	}
	policy := &model.TrafficPolicy{}
	for p := range s.backendTLSOf(host) {
		for _, t := range p.Targets {
			if t.Host == host {
				addTarget(policy, svc, t, func() *model.ClientTLS { return s.backendTLS(p) })
			}
		}
	}
	if policy.TLS == nil && len(policy.Ports) == 0 {
		return nil
	}
	slices.SortFunc(policy.Ports, func(a, b model.PortPolicy) int { return cmp.Compare(a.Port, b.Port) })
	return []model.Object{&model.BackendPolicy{Meta: svc.Meta, Host: host, Policy: a.policies.Canonical(policy)}}
}

// addTarget adds what a policy says of a Service, if no older one says it.
func addTarget(to *model.TrafficPolicy, svc *model.Service, t model.BackendTarget, tls func() *model.ClientTLS) {
	if t.Section == "" {
		if to.TLS == nil {
			to.TLS = tls()
		}
		return
	}
	port, has := portOf(svc, t.Section)
	taken := slices.ContainsFunc(to.Ports, func(p model.PortPolicy) bool { return p.Port == port })
	if has && !taken {
		to.Ports = append(to.Ports, model.PortPolicy{Port: port, Policy: &model.TrafficPolicy{TLS: tls()}})
	}
}

func portOf(svc *model.Service, name string) (uint16, bool) {
	i := slices.IndexFunc(svc.Ports, func(p model.ServicePort) bool { return p.Name == name })
	if i < 0 {
		return 0, false
	}
	return svc.Ports[i].Port, true
}

// backendTLS returns the TLS of a policy with its authorities. Without any it is Unusable.
func (s *Snapshot) backendTLS(p *model.BackendTLSPolicy) *model.ClientTLS {
	t := p.TLS
	if t.Mode == model.Unusable || len(p.Bundles) == 0 {
		return &t
	}
	t.Authorities = ""
	for _, name := range p.Bundles {
		certificates, _ := s.authoritiesIn(p.Namespace, name)
		t.Authorities += certificates
	}
	if t.Authorities == "" {
		return &model.ClientTLS{Mode: model.Unusable}
	}
	return &t
}

// backendTLSStatus returns the status of a policy, nil if there is none.
func (a *attachments) backendTLSStatus(s *Snapshot, k source.Key) *model.GatewayAPIStatus {
	p, _ := s.backendTLSPolicies.by[backendTLSPoliciesByName].get(join(k.Namespace, k.Name))
	if p == nil {
		return nil
	}
	out := &model.GatewayAPIStatus{Meta: p.Meta}
	is := model.ParentStatus{Accepted: s.backendTLSAccepted(p), ResolvedRefs: s.bundlesOf(p)}
	for _, ref := range a.ancestorsOf(p) {
		one := is
		one.Ref = ref
		out.Parents = append(out.Parents, one)
	}
	return out
}

// maxAncestors is how many a status may have.
const maxAncestors = 16

// ancestorsOf returns the Gateways that lead to the targets of a policy. Without any, its Services
// stand in the status: sidecars call them by the policy.
func (a *attachments) ancestorsOf(p *model.BackendTLSPolicy) []model.ParentRef {
	var gateways []string
	for _, t := range p.Targets {
		gateways = slices.AppendSeq(gateways, maps.Keys(a.leading.Get(t.Host)))
	}
	var out []model.ParentRef
	for _, full := range model.SortedDistinct(gateways) {
		namespace, name, _ := strings.Cut(full, "/")
		out = append(out, model.ParentRef{
			Group: kinds.GatewayAPIGroup, Kind: "Gateway", Namespace: namespace, Name: name,
		})
	}
	if len(out) == 0 {
		for _, t := range p.Targets {
			ref := model.ParentRef{Kind: "Service", Namespace: p.Namespace, Name: t.Service, Section: t.Section}
			out = append(out, ref)
		}
	}
	return out[:min(len(out), maxAncestors)]
}

// backendTLSAccepted says whether a policy is in force for all its targets.
func (s *Snapshot) backendTLSAccepted(p *model.BackendTLSPolicy) model.Condition {
	if !p.Accepted.Status {
		return p.Accepted
	}
	for _, t := range p.Targets {
		svc := s.kubernetesService(t.Host)
		if svc == nil {
			return model.Condition{
				Reason:  targetNotFound,
				Message: fmt.Sprintf("there is no Service %s", t.Service),
			}
		}
		if _, has := portOf(svc, t.Section); t.Section != "" && !has {
			return model.Condition{
				Reason:  targetNotFound,
				Message: fmt.Sprintf("the Service %s has no port with the name %s", t.Service, t.Section),
			}
		}
		if winner := s.winnerOf(t); winner != p {
			return model.Condition{
				Reason:  conflicted,
				Message: fmt.Sprintf("the policy %s for the Service %s is older", winner.Name, t.Service),
			}
		}
	}
	if s.backendTLS(p).Mode == model.Unusable {
		return model.Condition{
			Reason:  noValidCACertificate,
			Message: s.bundlesOf(p).Message,
		}
	}
	return p.Accepted
}

// winnerOf returns the policy that counts for a target.
func (s *Snapshot) winnerOf(t model.BackendTarget) *model.BackendTLSPolicy {
	for p := range s.backendTLSOf(t.Host) {
		if slices.Contains(p.Targets, t) {
			return p
		}
	}
	return nil
}

// bundlesOf says whether the ConfigMaps of a policy are there and hold certificates.
func (s *Snapshot) bundlesOf(p *model.BackendTLSPolicy) model.Condition {
	if !p.ResolvedRefs.Status {
		return p.ResolvedRefs
	}
	for _, name := range p.Bundles {
		if _, wrong := s.authoritiesIn(p.Namespace, name); wrong != "" {
			return model.Condition{
				Reason: invalidCACertificateRef, Message: wrong,
			}
		}
	}
	return p.ResolvedRefs
}

// authoritiesIn returns the certificates of a ConfigMap in PEM, or says why it gives none.
func (s *Snapshot) authoritiesIn(namespace, name string) (certificates, mistake string) {
	bundle := s.certificateBundle(namespace, name)
	switch {
	case bundle == nil:
		return "", fmt.Sprintf("there is no ConfigMap %s/%s with the key %s", namespace, name, kinds.AuthoritiesKey)
	case bundle.Broken != "":
		return "", fmt.Sprintf("%s of the ConfigMap %s/%s: %s", kinds.AuthoritiesKey, namespace, name, bundle.Broken)
	}
	return strings.TrimSpace(bundle.Certificates) + "\n", ""
}
