package validate

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// attachment is the aspect of what an object of the Gateway API comes to among others.
const attachment = "attachment"

// isAttached reports whether the state has made a VirtualService of a route of the Gateway API. The
// status of the route says what is wrong with it.
func isAttached(v *model.VirtualService) bool { return model.IsAttachedRoute(v.Kind) }

// checkAttachments reports what the statuses of the Gateway API say that depends on other objects.
// The conversion has reported the rest.
func (c *Checker) checkAttachments(d *state.Delta) {
	for _, p := range d.GatewayAPIStatuses {
		var problems []source.Problem
		if p.New != nil {
			problems = c.statusProblems(p.New)
		}
		c.store.setRelation(relation{p.Either().Key(), attachment}, problems)
	}
}

func (c *Checker) statusProblems(s *model.GatewayAPIStatus) []source.Problem {
	var problems []source.Problem
	report := func(severity source.Severity, at source.Problem, c model.Condition) {
		if isElsewhere(c) {
			at.Severity, at.Message, at.Want = severity, fmt.Sprintf("%s: %s", c.Reason, c.Message), wantOf(c.Reason)
			problems = append(problems, at)
		}
	}
	add := func(path, value string, c model.Condition) {
		report(source.Error, source.Problem{Path: path, Value: value}, c)
	}
	for _, l := range s.Listeners {
		path := fmt.Sprintf("spec.listeners[%q].tls.certificateRefs", l.Name)
		if l.ResolvedRefs.Reason == "InvalidCACertificateRef" {
			path = "spec.tls.frontend"
		}
		add(path, "", l.ResolvedRefs)
	}
	if s.Kind == kinds.ListenerSet {
		add("spec.parentRef", "", s.Accepted)
		for _, l := range s.Listeners {
			add(fmt.Sprintf("spec.listeners[%q]", l.Name), "", l.Accepted)
		}
		return problems
	}
	switch {
	case len(s.Listeners) == 0, s.Address == model.AwaitsDeployment && c.DeploysGateways:
	case s.Address == model.AwaitsBalancer: // nothing in the objects is wrong
		report(source.Warning, source.Problem{Path: "spec.addresses"}, s.Programmed)
	default:
		add("spec.addresses", "", s.Programmed)
	}
	if s.Kind == kinds.BackendTLSPolicy {
		for _, p := range s.Parents[:min(1, len(s.Parents))] { // all of them say the same
			add("spec.targetRefs", "", p.Accepted)
			add("spec.validation.caCertificateRefs", "", p.ResolvedRefs)
		}
		return problems
	}
	for i, p := range s.Parents {
		add(fmt.Sprintf("spec.parentRefs[%d]", i), p.Ref.Name, p.Accepted)
		same := func(other model.ParentStatus) bool { return other.ResolvedRefs == p.ResolvedRefs }
		if !slices.ContainsFunc(s.Parents[:i], same) { // what is true of calls may not be of a gateway
			add("spec.rules.backendRefs", "", p.ResolvedRefs)
		}
	}
	return problems
}

// isElsewhere reports whether a condition does not hold because of another object.
func isElsewhere(c model.Condition) bool { return !c.Status && wantOf(c.Reason) != "" }

func wantOf(reason string) string {
	switch reason {
	case "RefNotPermitted":
		return "a ReferenceGrant in the namespace of what is named"
	case "InvalidCertificateRef":
		return model.WantCredential
	case "TargetNotFound":
		return "a Service of the namespace, and the name of one of its ports"
	case "Conflicted":
		return "one policy for each Service or port"
	case "InvalidCACertificateRef":
		return "a ConfigMap of the namespace with certificates in PEM at the key " + kinds.AuthoritiesKey
	case "NotAllowed":
		return "allowedListeners of the Gateway that take the ListenerSet"
	case model.HostnameConflict, model.ProtocolConflict:
		return "a port or a hostname that no listener before it has"
	case "AddressNotUsable":
		return "one address, the host of a Service or an IP address"
	case "AddressNotAssigned":
		return "a Service for the workloads of the Gateway, with an address"
	case "BackendNotFound":
		return "a Service and one of its ports"
	case "NoMatchingParent":
		return "the name or the port of a listener"
	case "NotAllowedByListeners":
		return "allowedRoutes of the listener that take the route"
	case "NoMatchingListenerHostname":
		return "a hostname that the listener has too"
	}
	return ""
}
