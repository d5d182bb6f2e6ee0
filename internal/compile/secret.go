package compile

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/secret"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// secretSlots returns the secrets of a credential, if the class's own configuration names it. A
// Secret that cannot be used gives none. An Envoy that had one keeps it, and one that had none goes
// on without (docs/protocol.md, 1.15).
func (b unitBuilder) secretSlots(s *scope.Scope, credential string) []slot {
	if !s.Uses(credential) {
		return nil
	}
	var slots []slot
	if pair, _ := s.Certificate(credential); pair != nil {
		name := model.SecretName(credential)
		slots = append(slots, slot{typ: resource.Secret, name: name, get: func() emitted {
			return b.certificates.get(secret.CertificateInput{Name: name, Pair: *pair})
		}})
	}
	if authorities, _ := s.Authorities(credential); authorities != nil {
		name := model.AuthoritiesName(credential)
		slots = append(slots, slot{typ: resource.Secret, name: name, get: func() emitted {
			return b.authorities.get(secret.AuthoritiesInput{Name: name, Authorities: *authorities})
		}})
	}
	return slots
}

// hasCredential reports whether the credential is there that the policy of a cluster needs, usable
// or not.
func hasCredential(s *scope.Scope, in cluster.OutboundInput) bool {
	return s.Secured(cluster.Effective(in.Policy, in.SubsetPolicy, nil, in.Port).TLS) != model.Missing
}

// reportClosed reports the ports of a host that are closed to the class, or to some of its proxies,
// because it lacks what its DestinationRule wants to call with. Each credential is reported once,
// also that of the proxy's own (named "").
func (b unitBuilder) reportClosed(s *scope.Scope, host model.Host, report func(source.Problem)) {
	svc := s.Service(host)
	if svc == nil {
		return
	}
	rule := s.DestinationRule(svc)
	if rule == nil {
		return
	}
	var reported []string
	reportOnce := func(path string, tls *model.ClientTLS) {
		if tls == nil || !tls.NeedsCredential() || slices.Contains(reported, tls.Credential) ||
			s.Secured(tls) == model.Good {
			return
		}
		reported = append(reported, tls.Credential)
		if tls.Mode == model.IstioMutual {
			report(problemOf(&rule.Meta, missingAgent(path)))
			return
		}
		if s.Secured(tls) == model.Bad {
			report(problemOf(&rule.Meta, source.Problem{
				Severity: source.Error, Path: path, Value: tls.Credential, Want: model.WantCredential,
				Message: fmt.Sprintf(
					"the Secret of this name in namespace %s, that of the calling workload, cannot be used; "+
						"proxies keep what it held before, and the destination is closed to those that have none",
					s.Namespace(),
				),
			}))
			return
		}
		report(problemOf(&rule.Meta, missingCredential(s, rule, path, tls.Credential)))
	}
	for _, p := range svc.Ports {
		reportOnce("spec.trafficPolicy", cluster.Effective(rule.Policy, nil, nil, p.Port).TLS)
		for i, sub := range rule.Subsets {
			reportOnce(
				fmt.Sprintf("spec.subsets[%d].trafficPolicy", i),
				cluster.Effective(rule.Policy, sub.Policy, nil, p.Port).TLS,
			)
		}
	}
}

// noAgent says how a proxy without an agent is known (serve.Metadata.HasAgent).
const noAgent = "no ENVOY_STATUS_PORT in the node's metadata"

// missingAgent does not name the class, since classes of other namespaces that start from it take
// the problem over.
func missingAgent(path string) source.Problem {
	return source.Problem{
		Severity: source.Error, Path: path + ".tls.mode", Value: "ISTIO_MUTUAL",
		Message: "some calling workloads have no agent that serves their proxy a certificate of the " +
			"mesh (" + noAgent + "); the destination is closed to them",
		Want: "workloads whose proxies an agent of Istio runs, or another mode",
	}
}

func missingCredential(s *scope.Scope, rule *model.DestinationRule, path, credential string) source.Problem {
	p := source.Problem{Severity: source.Error, Path: path, Value: credential}
	switch {
	case s.Settings().Credentials != scope.AllCredentials:
		p.Severity = source.Warning
		p.Message = "some connected proxies may not have Secrets; the destination is closed to them"
		p.Want = "a token of the proxy's own Pod; for a gateway, " + model.WantGatewayPod
		return p
	case !s.MayUseCredentialsOf(rule):
		p.Severity = source.Warning
		p.Message = "this credentialName is for gateways alone, as the rule has no workloadSelector; the " +
			"destination is closed to sidecars"
		p.Want = "a workloadSelector, or an exportTo or a Sidecar that keeps the rule or the host from them"
		return p
	}
	p.Message = fmt.Sprintf(
		"there is no Secret of this name with what the mode needs in namespace %s, that of the calling workload; "+
			"the destination is closed",
		s.Namespace(),
	)
	p.Want = model.WantCredential
	return p
}

// NoCredentials says why a Pod keeps a proxy from having Secrets: it is unknown, runs as another
// service account, or is no gateway. It is empty if it does not.
func NoCredentials(f Facts, pod *model.Workload) string {
	switch {
	case pod == nil:
		return "its Pod is not known (yet)"
	case f.Account == "" || f.Account != pod.ServiceAccount:
		return "its token is not that of its Pod's service account " + pod.ServiceAccount
	case f.Proxy.Type == scope.Router && !pod.Gateway:
		return "its Pod is no gateway: it has neither the annotation " + kinds.TemplatesAnnotation +
			": gateway nor a container istio-proxy with the arguments [proxy, router]"
	}
	return ""
}

// credentialsOf returns which Secrets a proxy may have, by what it proved and by its Pod. A gateway
// whose service account may not read Secrets has those of its own Gateway, if that was deployed
// with this account.
func credentialsOf(snap *state.Snapshot, f Facts, pod *model.Workload) scope.CredentialRight {
	right := f.Proxy.Settings.Credentials
	if right == scope.NoCredentials || NoCredentials(f, pod) != "" {
		return scope.NoCredentials
	}
	if right == scope.OwnGatewayCredentials && NotDeployed(snap, f, pod) != "" {
		return scope.NoCredentials
	}
	return right
}

// NotDeployed says why a gateway is none that was deployed for a Gateway of the Gateway API. It is
// empty if it is.
func NotDeployed(snap *state.Snapshot, f Facts, pod *model.Workload) string {
	gateway, has := pod.Labels.Get(model.GatewayNameLabel)
	if !has {
		return "its Pod has no label " + model.GatewayNameLabel
	}
	name := snap.GatewayAPIStatus(kinds.KubernetesGateway, pod.Namespace, gateway).DeploymentName()
	switch name {
	case f.Account:
		return ""
	case "":
		return "no workloads are deployed for a Gateway " + gateway
	}
	return "it does not run as the service account of the Gateway " + gateway + ", " + name
}

// addCredential adds a Secret that changed. Clusters may open or close because of it.
func (m *impact) addCredential(c *model.Credential) {
	for _, name := range model.CredentialsOf(c.Name) {
		m.credentials = append(m.credentials, changedCredential{namespace: c.Namespace, name: name, by: m.by})
		for _, snap := range m.snapshots() {
			for r := range snap.DestinationRulesWith(name) {
				m.addRule(r)
			}
			if presented(snap, name) || presented(snap, c.Namespace+"/"+name) {
				m.addBackendPolicies()
			}
		}
	}
}

// presented reports whether a Gateway presents a credential to servers.
func presented(snap *state.Snapshot, credential string) bool {
	for g := range snap.GatewaysWith(credential) {
		if g.Presents == credential {
			return true
		}
	}
	return false
}

// changedCredential is a credential whose Secret changed.
type changedCredential struct {
	namespace, name string
	by              cause
}

// nameFor returns the name by which a class may have the credential, or "". Only Gateways of the
// Gateway API lead to a Secret of another namespace, with a grant.
func (c changedCredential) nameFor(s *scope.Scope) string {
	switch {
	case s.IsOwn(c.namespace):
		return c.name
	case s.Type() == scope.Router:
		return model.QualifiedCredential("", model.ObjectName{Namespace: c.namespace, Name: c.name})
	}
	return ""
}
