package differences

import (
	"cmp"
	"slices"
	"strings"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Together finds what works otherwise than in istiod because of several objects. Its zero value has
// seen none.
type Together struct {
	// Root is the root namespace, whose policies are for all namespaces.
	Root string

	entries   []*networkingv1.ServiceEntry
	services  []*corev1.Service
	rules     []*networkingv1.DestinationRule
	policies  []*securityv1.AuthorizationPolicy
	providers map[string]bool // that are asked by HTTP
	workloads []workload
}

// Add looks at an object of any type.
func (t *Together) Add(o metav1.Object) {
	switch typed := o.(type) {
	case *networkingv1.ServiceEntry:
		t.entries = append(t.entries, typed)
	case *corev1.Service:
		t.services = append(t.services, typed)
	case *networkingv1.DestinationRule:
		t.rules = append(t.rules, typed)
	case *securityv1.AuthorizationPolicy:
		t.policies = append(t.policies, typed)
	case *corev1.ConfigMap:
		t.readProviders(typed.Data["mesh"])
	}
}

// Found returns what works otherwise among the objects that were added.
func (t *Together) Found() []source.Problem {
	slices.SortStableFunc(t.entries, older)
	slices.SortStableFunc(t.services, older)
	slices.SortStableFunc(t.rules, older)
	return slices.Concat(entriesOfOneHost(t.entries), t.entriesOfServices(), t.outside(), t.rulesOfOneHost(),
		t.askedByHTTP(), t.portsOfNoService())
}

// older puts the objects that come first at the front, as the control plane does.
func older[T metav1.Object](a, b T) int {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
}

// entriesOfServices are the ServiceEntries for the host of a Service of their namespace.
func (t *Together) entriesOfServices() (found []source.Problem) {
	known := t.serviceNames()
	for _, e := range t.entries {
		for i, host := range e.Spec.GetHosts() {
			if name := serviceOf(host, e.Namespace); known[name] && strings.HasSuffix(name, "."+e.Namespace) {
				found = append(found, differs(kinds.ServiceEntry, e, Field{at("spec.hosts", i), host},
					"istiod adds its endpoints to those of the Service; Lateen gives the host to the Service alone",
					"another host"))
			}
		}
	}
	return found
}

// outside are the ExternalName Services whose name is no service of the mesh.
func (t *Together) outside() (found []source.Problem) {
	hosts := t.serviceNames()
	for _, e := range t.entries {
		for _, host := range e.Spec.GetHosts() {
			hosts[strings.ToLower(host)] = true
		}
	}
	for _, s := range t.services {
		name := strings.ToLower(strings.TrimSuffix(s.Spec.ExternalName, "."))
		if s.Spec.Type == corev1.ServiceTypeExternalName && !hosts[name] && !hosts[serviceOf(name, s.Namespace)] {
			found = append(found, differs(kinds.Service, s, Field{"spec.externalName", s.Spec.ExternalName},
				"istiod leaves requests to the Service to the outbound traffic policy, by which they may be "+
					"refused; Lateen sends them to this name",
				"a ServiceEntry for the name, where its calls are to have policies"))
		}
	}
	return found
}

// rulesOfOneHost are DestinationRules of one namespace for one host that are for different callers.
func (t *Together) rulesOfOneHost() (found []source.Problem) {
	first := map[string]*networkingv1.DestinationRule{}
	for _, r := range t.rules {
		if len(r.Spec.GetWorkloadSelector().GetMatchLabels()) > 0 {
			continue // it is merged with none
		}
		host := r.Namespace + "/" + strings.ToLower(r.Spec.GetHost())
		known := first[host]
		if known == nil {
			first[host] = r
			continue
		}
		a, b := slices.Values(known.Spec.GetExportTo()), slices.Values(r.Spec.GetExportTo())
		if !slices.Equal(slices.Sorted(a), slices.Sorted(b)) {
			found = append(found, differs(kinds.DestinationRule, r,
				Field{"spec.exportTo", strings.Join(r.Spec.GetExportTo(), ", ")},
				"DestinationRule "+known.Namespace+"/"+known.Name+" is for this host too, and for other callers; "+
					"istiod keeps the two apart; Lateen merges them for callers that see both",
				"the same exportTo, or one rule"))
		}
	}
	return found
}

// serviceNames has all Services, as nameOf.
func (t *Together) serviceNames() map[string]bool {
	names := map[string]bool{}
	for _, s := range t.services {
		names[nameOf(s)] = true
	}
	return names
}

// nameOf is the name of a Service with its namespace.
func nameOf(s *corev1.Service) string { return s.Name + "." + s.Namespace }

// serviceOf returns which Service a host would be, as nameOf, when it is named from a namespace.
func serviceOf(host, namespace string) string {
	parts := strings.Split(strings.ToLower(host), ".")
	switch {
	case len(parts) == 1:
		return host + "." + namespace
	case len(parts) == 2 || parts[2] == "svc":
		return parts[0] + "." + parts[1]
	}
	return ""
}

func differs(kind kinds.Kind, o metav1.Object, f Field, message, want string) source.Problem {
	return source.Problem{
		Severity: source.Warning, Object: source.Key{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()},
		Path: f.Path, Value: f.Value, Message: message, Want: want,
	}
}
