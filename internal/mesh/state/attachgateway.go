package state

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// resolveGateway returns a Gateway with all its listeners, and the Gateways of those that are open.
func (a *attachments) resolveGateway(s *Snapshot, k source.Key) []model.Object {
	served := a.serve(s, k)
	if served == nil {
		return nil
	}
	out, g := []model.Object{served}, &served.KubernetesGateway
	selector, also, workloads := s.workloadsOf(g)
	if selector.IsEmpty() || g.Accepted.Reason == unsupportedAddress {
		return out
	}
	unreached, ports := s.unreached(g), hostsByPort(g)
	for i := range g.Listeners {
		l := &g.Listeners[i]
		if !l.IsOpen() {
			continue
		}
		listener := &model.Gateway{
			Meta: g.Meta, Selector: selector, AlsoSelector: also, Workloads: workloads,
			Servers: []model.GatewayServer{a.serverOf(s, g, l, workloads)}, Presents: s.presents(g, workloads),
		}
		listener.Owner, listener.Name = g.Name, listenerName(g, l)
		server := &listener.Servers[0]
		server.Broken = cmp.Or(server.Broken, unreached)
		if l.TLS != nil && l.TLS.Mode.Terminates() && l.Protocol.IsHTTP() {
			server.Misdirected = ports[l.Port].misdirected(l.Host)
		}
		out = append(out, listener)
	}
	return out
}

// presents returns the credential that a Gateway presents to servers, or "". One that it may not
// have does not exist.
func (s *Snapshot) presents(g *model.KubernetesGateway, workloads string) string {
	switch {
	case g.Presents.Name == "":
		return ""
	case s.presentedRefs(g).Reason == refNotPermitted:
		return model.NoSecret
	}
	return model.QualifiedCredential(workloads, g.Presents)
}

// presentedRefs says whether a Gateway may have the certificate that it presents, and whether it is
// there; without a reason if it presents none.
func (s *Snapshot) presentedRefs(g *model.KubernetesGateway) model.Condition {
	secret := g.Presents
	if !g.ResolvedRefs.Status {
		return g.ResolvedRefs
	}
	if missing := s.missingGrant(fromGateway(g), kinds.Secret, secret); missing.Reason != "" {
		return missing
	}
	if _, holds := s.Certificate(secret.Namespace, secret.Name); holds != model.Good {
		return model.Condition{Reason: "InvalidClientCertificateRef", Message: fmt.Sprintf(
			"the Secret %s/%s holds no certificate with its key", secret.Namespace, secret.Name,
		)}
	}
	return g.ResolvedRefs
}

// Reasons of the specification for Gateways.
const (
	unsupportedAddress = "UnsupportedAddress"
	invalidParameters  = "InvalidParameters"
)

// listenerName is the name of the Gateway of a listener. No object of a user has such a name.
func listenerName(g *model.KubernetesGateway, l *model.Listener) string {
	if l.Set.Name == "" {
		return g.Name + "~" + l.Name
	}
	return strings.Join([]string{g.Name, l.Set.Namespace, l.Set.Name, l.Name}, "~")
}

// namedListener is what listenerName and the namespace of the Gateway say of a listener.
type namedListener struct {
	gateway source.Key
	set     model.ObjectName // of the ListenerSet; empty for the Gateway's own
	name    string
}

// parseListener reads the "namespace/name" of the Gateway that was made of a listener.
func parseListener(listener string) namedListener {
	namespace, rest, _ := strings.Cut(listener, "/")
	parts := strings.Split(rest, "~")
	n := namedListener{gateway: gatewayKey(namespace, parts[0]), name: parts[len(parts)-1]}
	if len(parts) == 4 {
		n.set = model.ObjectName{Namespace: parts[1], Name: parts[2]}
	}
	return n
}

// ownerOf returns the key of the Gateway or the ListenerSet of a listener, by the "namespace/name"
// of the Gateway that was made of it.
func ownerOf(listener string) source.Key {
	n := parseListener(listener)
	if n.set.Name != "" {
		return source.Key{Kind: kinds.ListenerSet, Namespace: n.set.Namespace, Name: n.set.Name}
	}
	return n.gateway
}

// namespaceOf returns the namespace of the object that a listener is written in.
func namespaceOf(g *model.KubernetesGateway, l *model.Listener) string {
	return cmp.Or(l.Set.Namespace, g.Namespace)
}

// workloadsOf returns which workloads serve a Gateway: those of the Service that is its address, or
// those with its name in their labels.
func (s *Snapshot) workloadsOf(g *model.KubernetesGateway) (selector, also model.Labels, namespace string) {
	if g.Service == "" {
		of := model.GatewaySelectors(g.Name)
		return of[0], of[1], g.Namespace
	}
	for svc := range s.Claims(g.Service) {
		return svc.Selector, model.Labels{}, svc.Namespace
	}
	return model.Labels{}, model.Labels{}, ""
}

// serverOf returns the server of a listener. One whose Secrets it may not have is broken.
func (a *attachments) serverOf(
	s *Snapshot, g *model.KubernetesGateway, l *model.Listener, workloads string,
) model.GatewayServer {
	out := model.GatewayServer{
		Name: l.Name, Port: l.Port, Protocol: l.Protocol, Hosts: []model.ScopedHost{{Namespace: "*", Host: l.Host}},
	}
	if l.TLS == nil {
		return out
	}
	t := *l.TLS
	t.Credentials = nil
	for _, secret := range l.Secrets {
		t.Credentials = append(t.Credentials, model.QualifiedCredential(workloads, secret))
	}
	out.PortName, out.TLS = l.Name, a.tls.Canonical(&t)
	c := s.resolvedRefs(g, l)
	if c.Reason == refNotPermitted || l.TLS.Mode.Terminates() && len(l.Secrets) == 0 && !c.Status {
		out.Broken = c.Message
	}
	return out
}

// The reasons of the specification for references.
const (
	refNotPermitted       = "RefNotPermitted"
	invalidCertificateRef = "InvalidCertificateRef"
	backendNotFound       = "BackendNotFound"
)

// resolvedRefs says whether a listener may have its Secrets, and whether they hold certificates.
func (s *Snapshot) resolvedRefs(g *model.KubernetesGateway, l *model.Listener) model.Condition {
	from := fromGateway(g)
	if l.Set.Name != "" {
		from.Kind, from.Namespace = string(kinds.ListenerSet), l.Set.Namespace
	}
	for _, secret := range l.Secrets {
		if missing := s.missingGrant(from, kinds.Secret, secret); missing.Reason != "" {
			return missing
		}
	}
	if !l.ResolvedRefs.Status {
		return l.ResolvedRefs
	}
	for _, secret := range l.Secrets {
		if _, holds := s.Certificate(secret.Namespace, secret.Name); holds != model.Good {
			return model.Condition{Reason: invalidCertificateRef, Message: fmt.Sprintf(
				"the Secret %s/%s holds no certificate with its key", secret.Namespace, secret.Name,
			)}
		}
	}
	return l.ResolvedRefs
}

// hasCertificates reports whether a listener with these resolved references can present a
// certificate, if it needs one.
func hasCertificates(l *model.Listener, refs model.Condition) bool {
	if l.TLS == nil || !l.TLS.Mode.Terminates() {
		return true
	}
	return refs.Status || refs.Reason == invalidCACertificateRef // some of the authorities are there
}

// gatewayStatus returns the status of a Gateway, nil if it is not Lateen's.
func (a *attachments) gatewayStatus(s *Snapshot, k source.Key) *model.GatewayAPIStatus {
	served := s.served(k)
	if served == nil {
		return nil
	}
	g := &served.KubernetesGateway
	out := &model.GatewayAPIStatus{
		Meta: g.Meta, Accepted: g.Accepted, Addresses: s.addressesOf(g), Sets: served.Attached,
		ResolvedRefs: s.presentedRefs(g),
	}
	if slices.ContainsFunc(g.Clients, func(v model.ClientValidation) bool { return v.AnyClient }) {
		out.Insecure = model.Condition{
			Status: true, Reason: "ConfigurationChanged", Message: "clients need no valid certificate",
		}
	}
	var closed []string
	unreached := s.unreached(g)
	for i := range g.Listeners {
		if g.Listeners[i].Set.Name != "" {
			break // those of sets come last
		}
		l := a.listenerStatus(s, g, &g.Listeners[i], unreached)
		out.Listeners = append(out.Listeners, l)
		if !l.Accepted.Status || !l.Programmed.Status {
			closed = append(closed, l.Name)
		}
	}
	if len(closed) > 0 && out.Accepted.Status {
		out.Accepted = model.Condition{
			Status: len(closed) < len(out.Listeners), Reason: listenersNotValid,
			Message: "listeners that are not in force: " + strings.Join(closed, ", "),
		}
	}
	out.Deployment = s.deploymentOf(g, out)
	unusable := s.unusableAddress(g)
	switch {
	case !out.Accepted.Status:
		out.Programmed = model.Condition{Reason: "Invalid", Message: out.Accepted.Message}
	case unusable != "":
		out.Programmed = model.Condition{Reason: "AddressNotUsable", Message: unusable}
	case len(out.Addresses) == 0:
		out.Programmed = model.Condition{Reason: "AddressNotAssigned"}
		out.Address, out.Programmed.Message = s.noAddress(g)
	default:
		out.Programmed = model.Condition{Status: true, Reason: "Programmed"}
	}
	return out
}

// longestName is how long a name of a Service may be.
const longestName = 63

// deploymentOf returns what a Gateway is deployed as; nil if it is not, or has workloads of its
// own.
func (s *Snapshot) deploymentOf(
	g *model.KubernetesGateway, status *model.GatewayAPIStatus,
) *model.GatewayDeployment {
	name := deploymentName(g)
	if g.Service != "" || g.Accepted.Reason == unsupportedAddress || g.UID == "" || len(name) > longestName {
		return nil
	}
	d := &model.GatewayDeployment{Gateway: g.Meta, Name: name, Class: g.Class, Infrastructure: g.Infrastructure}
	if d.Revision == "" {
		d.Revision, _ = s.namespaceLabels(g.Namespace).Get(kinds.RevisionLabel)
	}
	if c := s.gatewayClass(g.Class); c != nil {
		d.ClassParameters = c.Parameters
	}
	if g.Accepted.Reason == invalidParameters {
		d.Mistake = g.Accepted.Message
	}
	for i := range g.Listeners {
		l := &g.Listeners[i]
		has := func(p model.GatewayPort) bool { return p.Port == l.Port }
		if !l.Accepted.Status || slices.ContainsFunc(d.Ports, has) {
			continue
		}
		port := model.GatewayPort{Port: l.Port, Protocol: l.Protocol}
		if l.TLS != nil {
			port.Protocol = model.TLS
		}
		d.Ports = append(d.Ports, port)
	}
	slices.SortFunc(d.Ports, func(a, b model.GatewayPort) int { return cmp.Compare(a.Port, b.Port) })
	return d
}

// unusableAddress says which address of a Gateway cannot be used, though its type is supported; ""
// if all can.
func (s *Snapshot) unusableAddress(g *model.KubernetesGateway) string {
	if g.Service == "" {
		return g.Unusable
	}
	for range s.Claims(g.Service) {
		return g.Unusable
	}
	return fmt.Sprintf("there is no Service with the host %s", g.Service)
}

// deploymentName is the name of what a Gateway is deployed as.
func deploymentName(g *model.KubernetesGateway) string { return g.Name + "-" + g.Class }

// noAddress says why a Gateway without an address has none.
func (s *Snapshot) noAddress(g *model.KubernetesGateway) (model.AddressState, string) {
	if svc := firstOf(s.servicesOfGateway(g)); svc != nil {
		return model.AwaitsBalancer, fmt.Sprintf("the Service %s waits for the address of its load balancer", svc.Host)
	}
	if name := deploymentName(g); len(name) > longestName {
		return model.LacksAddress, fmt.Sprintf(
			"%s is longer than %d characters, so that no Service can have this name", name, longestName,
		)
	}
	return model.AwaitsDeployment, fmt.Sprintf(
		"no Service of the namespace selects %s=%s", model.GatewayNameLabel, g.Name,
	)
}

// listenerStatus returns the status of a listener. unreached is what the Gateway's says of policies
// that do not reach its workloads.
func (a *attachments) listenerStatus(
	s *Snapshot, g *model.KubernetesGateway, l *model.Listener, unreached string,
) model.ListenerStatus {
	out := model.ListenerStatus{
		Name: l.Name, Kinds: l.Kinds, Accepted: l.Accepted, Conflicted: l.Conflicted,
		ResolvedRefs: s.resolvedRefs(g, l),
		Attached:     a.attached.Get(g.Namespace + "/" + listenerName(g, l)),
		Programmed:   model.Condition{Status: true, Reason: "Programmed"},
	}
	switch {
	case l.Set.Name != "" && l.Conflicted.Status:
		out.Programmed = l.Accepted
	case !l.IsOpen():
		out.Programmed = model.Condition{Reason: "Invalid", Message: l.Accepted.Message}
	case !hasCertificates(l, out.ResolvedRefs):
		out.Programmed = model.Condition{Reason: "Invalid", Message: out.ResolvedRefs.Message}
	case unreached != "":
		out.Programmed = model.Condition{Reason: "Invalid", Message: unreached}
	}
	return out
}

// addressesOf returns where a Gateway is reached: the external addresses of its Services, else
// their hosts, sorted. The host of a Service that waits for the address of its load balancer is
// none: from outside nobody would find it.
func (s *Snapshot) addressesOf(g *model.KubernetesGateway) []string {
	var external, hosts []string
	add := func(svc *model.Service) {
		external = append(append(external, svc.ExternalIPs...), svc.Balancers...)
		if !svc.Balanced {
			hosts = append(hosts, string(svc.Host))
		}
	}
	for svc := range s.servicesOfGateway(g) {
		add(svc)
	}
	if len(external) > 0 {
		return model.SortedDistinct(external)
	}
	return model.SortedDistinct(hosts)
}

// servicesOfGateway yields the Services that lead to a Gateway: the one that is its address, or
// those that select its workloads, some of them twice.
func (s *Snapshot) servicesOfGateway(g *model.KubernetesGateway) iter.Seq[*model.Service] {
	return func(yield func(*model.Service) bool) {
		if g.Service != "" {
			if svc := firstOf(s.Claims(g.Service)); svc != nil {
				yield(svc)
			}
			return
		}
		for _, label := range gatewayNameLabels() {
			for svc := range s.ServicesSelecting(g.Namespace, model.LabelsOf(map[string]string{label: g.Name})) {
				if !yield(svc) {
					return
				}
			}
		}
	}
}

// firstOf returns the first of a list, nil if it is empty.
func firstOf[T any](list iter.Seq[*T]) *T {
	for t := range list {
		return t
	}
	return nil
}
