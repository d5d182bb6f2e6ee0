package inspect

import (
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// mtlsRules are DestinationRules that say whether callers use mutual TLS of the mesh, and the
// PeerAuthentications that say whether workloads take it.
type mtlsRules struct {
	rules    []callingRule
	policies []*securityv1.PeerAuthentication
}

// callingRule is a DestinationRule with one mode for all ports of a host.
type callingRule struct {
	source.Change
	host model.Host
	mode networking.ClientTLSSettings_TLSmode
}

// lookAtRule notes a DestinationRule, unless ports or subsets have modes of their own.
func (m *mtlsRules) lookAtRule(c source.Change, o *networkingv1.DestinationRule, host model.Host) {
	policy := o.Spec.GetTrafficPolicy()
	if policy.GetTls() == nil || len(policy.GetPortLevelSettings()) > 0 {
		return
	}
	for _, subset := range o.Spec.GetSubsets() {
		if p := subset.GetTrafficPolicy(); p.GetTls() != nil || len(p.GetPortLevelSettings()) > 0 {
			return
		}
	}
	m.rules = append(m.rules, callingRule{c, host, policy.GetTls().GetMode()})
}

// conflict is a mode of workloads that refuses all calls in a mode of callers.
type conflict struct {
	by      security.PeerAuthentication_MutualTLS_Mode
	message string
	want    string
}

// conflictWith returns what refuses calls in a mode; false if nothing in the mesh does.
func conflictWith(mode networking.ClientTLSSettings_TLSmode) (conflict, bool) {
	switch mode {
	case networking.ClientTLSSettings_DISABLE:
		return conflict{
			security.PeerAuthentication_MutualTLS_STRICT, "which take mutual TLS alone: calls in plaintext are refused",
			"ISTIO_MUTUAL, or PERMISSIVE in the PeerAuthentication",
		}, true
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		return conflict{
			security.PeerAuthentication_MutualTLS_DISABLE, "which take plaintext alone: calls in mutual TLS fail",
			"DISABLE, or PERMISSIVE in the PeerAuthentication",
		}, true
	default:
		return conflict{}, false
	}
}

// mtlsConflicts returns the DestinationRules whose calls all workloads of the host refuse.
func (w *whole) mtlsConflicts() (problems []source.Problem) {
	for _, r := range w.mtls.rules {
		with, is := conflictWith(r.mode)
		if !is {
			continue
		}
		if policy := w.refusingAll(r.host, with.by); policy != nil {
			key := source.Key{Kind: kinds.PeerAuthentication, Namespace: policy.Namespace, Name: policy.Name}
			problems = append(problems, source.Problem{
				Severity: source.Warning, Object: r.Key, Origin: r.Origin, Path: "spec.trafficPolicy.tls.mode",
				Value:   r.mode.String(),
				Message: key.String() + " is in force for the workloads of " + string(r.host) + ", " + with.message,
				Want:    with.want,
			})
		}
	}
	return problems
}

// refusingAll returns a PeerAuthentication with a mode, if all workloads of a host have the mode;
// nil if some have another one, or nobody knows.
func (w *whole) refusingAll(host model.Host, mode security.PeerAuthentication_MutualTLS_Mode) (
	policy *securityv1.PeerAuthentication,
) {
	for namespace, services := range w.services {
		for _, svc := range services {
			if svc.host != host || !w.knowsAll(namespace) {
				continue
			}
			for _, pod := range w.pods {
				if pod.namespace != namespace || !svc.selector.Matches(pod.labels) {
					continue
				}
				if policy = w.modeOf(pod); policy == nil || policy.Spec.GetMtls().GetMode() != mode {
					return nil
				}
			}
		}
	}
	return policy
}

// modeOf returns the PeerAuthentication in force at all ports of a workload: of those that select
// it, of its namespace, or of the mesh. It returns nil if there is none, or if several are, of
// which age decides.
func (w *whole) modeOf(pod labelled) *securityv1.PeerAuthentication {
	var levels [3][]*securityv1.PeerAuthentication
	for _, p := range w.mtls.policies {
		want := p.Spec.GetSelector().GetMatchLabels()
		switch {
		case len(want) > 0 && p.Namespace == pod.namespace && labels.SelectorFromSet(want).Matches(pod.labels):
			levels[0] = append(levels[0], p)
		case len(want) == 0 && p.Namespace == pod.namespace:
			levels[1] = append(levels[1], p)
		case len(want) == 0 && p.Namespace == w.root:
			levels[2] = append(levels[2], p)
		}
	}
	for _, found := range levels {
		switch {
		case len(found) == 0:
		case len(found) > 1 || len(found[0].Spec.GetPortLevelMtls()) > 0:
			return nil
		case found[0].Spec.GetMtls().GetMode() != security.PeerAuthentication_MutualTLS_UNSET:
			return found[0]
		}
	}
	return nil
}
