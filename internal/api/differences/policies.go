package differences

import (
	"fmt"
	"strings"

	security "istio.io/api/security/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// readProviders remembers the authorizers of a mesh configuration that are asked by HTTP.
func (t *Together) readProviders(text string) {
	var mesh struct {
		ExtensionProviders []struct {
			Name string         `json:"name"`
			HTTP map[string]any `json:"envoyExtAuthzHttp"`
		} `json:"extensionProviders"`
	}
	if yaml.Unmarshal([]byte(text), &mesh) != nil {
		return // the conversion reports it
	}
	for _, p := range mesh.ExtensionProviders {
		if p.HTTP == nil {
			continue
		}
		if t.providers == nil {
			t.providers = map[string]bool{}
		}
		t.providers[p.Name] = true
	}
}

// askedByHTTP are the policies whose authorizer cannot be asked about bytes.
func (t *Together) askedByHTTP() (found []source.Problem) {
	for _, p := range t.policies {
		name := p.Spec.GetProvider().GetName()
		if p.Spec.GetAction() == security.AuthorizationPolicy_CUSTOM && t.providers[name] {
			found = append(found, differs(kinds.AuthorizationPolicy, p, Field{"spec.provider.name", name},
				"istiod lets connections that are not HTTP through, as this authorizer is asked by HTTP; Lateen "+
					"refuses them",
				"an authorizer that is asked by gRPC (envoyExtAuthzGrpc) where workloads have such ports"))
		}
	}
	return found
}

// workload is what makes Pods.
type workload struct {
	key      source.Key
	path     string // of the template
	template *corev1.PodTemplateSpec
}

// AddWorkload looks at an object that makes Pods, or at a Pod. path leads to their template; it is
// empty for a Pod.
func (t *Together) AddWorkload(key source.Key, path string, template *corev1.PodTemplateSpec) {
	t.workloads = append(t.workloads, workload{key, path, template})
}

// portsOfNoService are the ports of containers that no Service names, and that a policy with
// conditions on requests is for.
func (t *Together) portsOfNoService() (found []source.Problem) {
	for _, w := range t.workloads {
		policy := t.requestPolicy(w)
		if policy == nil {
			continue
		}
		for i, c := range w.template.Spec.Containers {
			for j, p := range c.Ports {
				if c.Name == kinds.ProxyContainer || p.Protocol == corev1.ProtocolUDP || t.isNamed(w, p) {
					continue
				}
				path := fmt.Sprintf("%s.spec.containers[%d].ports[%d].containerPort", w.path, i, j)
				found = append(found, source.Problem{
					Severity: source.Warning, Object: w.key,
					Path: strings.TrimPrefix(path, "."), Value: fmt.Sprint(p.ContainerPort),
					Message: "no Service names this port, and AuthorizationPolicy " + policy.Namespace + "/" +
						policy.Name + " has conditions on requests; istiod finds out whether the port speaks HTTP; " +
						"Lateen passes bytes on, so that an ALLOW for requests lets nobody in",
					Want: "a Service that names the port, as http-admin",
				})
			}
		}
	}
	return found
}

// requestPolicy returns a policy for a workload that looks at requests, nil if there is none.
func (t *Together) requestPolicy(w workload) *securityv1.AuthorizationPolicy {
	for _, p := range t.policies {
		here := p.Namespace == w.key.Namespace || p.Namespace == t.Root
		targeted := len(p.Spec.GetTargetRefs()) > 0 || p.Spec.GetTargetRef() != nil
		if !here || targeted || !looksAtRequests(&p.Spec) {
			continue
		}
		selector := labels.SelectorFromSet(p.Spec.GetSelector().GetMatchLabels())
		if selector.Matches(labels.Set(w.template.Labels)) {
			return p
		}
	}
	return nil
}

// looksAtRequests reports whether a rule has a condition that only a request can meet.
func looksAtRequests(p *security.AuthorizationPolicy) bool {
	for _, rule := range p.GetRules() {
		for _, to := range rule.GetTo() {
			o := to.GetOperation()
			if len(o.GetHosts())+len(o.GetNotHosts())+len(o.GetPaths())+len(o.GetNotPaths())+len(o.GetMethods())+
				len(o.GetNotMethods()) > 0 {
				return true
			}
		}
		for _, from := range rule.GetFrom() {
			if s := from.GetSource(); len(s.GetRequestPrincipals())+len(s.GetNotRequestPrincipals()) > 0 {
				return true
			}
		}
		for _, when := range rule.GetWhen() {
			if strings.HasPrefix(when.GetKey(), "request.") {
				return true
			}
		}
	}
	return false
}

// isNamed reports whether a Service leads to a port of a workload.
func (t *Together) isNamed(w workload, p corev1.ContainerPort) bool {
	for _, s := range t.services {
		if s.Namespace != w.key.Namespace || len(s.Spec.Selector) == 0 ||
			!labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(w.template.Labels)) {
			continue
		}
		for _, of := range s.Spec.Ports {
			target := of.TargetPort
			switch {
			case target == intstr.IntOrString{} && of.Port == p.ContainerPort,
				target.Type == intstr.Int && target.IntVal == p.ContainerPort,
				target.Type == intstr.String && target.StrVal == p.Name:
				return true
			}
		}
	}
	return false
}
