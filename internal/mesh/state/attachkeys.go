package state

import (
	"fmt"
	"iter"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
)

func gatewaySelectors(all []selector, g *model.Gateway) []selector {
	for _, labels := range []model.Labels{g.Selector, g.AlsoSelector} {
		if !labels.IsEmpty() {
			all = append(all, selector{labels, &g.Meta})
		}
	}
	return all
}

func gatewaySecretKeys(keys [][]byte, g *model.KubernetesGateway) [][]byte {
	if n := g.Presents; n.Name != "" {
		keys = append(keys, ordered(join(n.Namespace, n.Name), &g.Meta, ""))
	}
	return secretKeys(keys, &g.Meta, g.Listeners)
}

func setSecretKeys(keys [][]byte, set *model.ListenerSet) [][]byte {
	return secretKeys(keys, &set.Meta, set.Listeners)
}

func secretKeys(keys [][]byte, m *model.Meta, list []model.Listener) [][]byte {
	for i := range list {
		for _, s := range list[i].Secrets {
			keys = append(keys, ordered(join(s.Namespace, s.Name), m, ""))
		}
	}
	return keys
}

func gatewayForeignKeys(keys [][]byte, g *model.KubernetesGateway) [][]byte {
	if g.Presents.Name != "" {
		keys = foreignKeys(keys, &g.Meta, []model.ObjectName{g.Presents})
	}
	for _, v := range g.Clients {
		keys = foreignKeys(keys, &g.Meta, v.Bundles)
	}
	for i := range g.Listeners {
		keys = foreignKeys(keys, &g.Meta, g.Listeners[i].Secrets)
	}
	return keys
}

func setForeignKeys(keys [][]byte, set *model.ListenerSet) [][]byte {
	for i := range set.Listeners {
		keys = foreignKeys(keys, &set.Meta, set.Listeners[i].Secrets)
	}
	return keys
}

func foreignKeys(keys [][]byte, m *model.Meta, names []model.ObjectName) [][]byte {
	for _, n := range names {
		if n.Namespace != m.Namespace {
			keys = append(keys, ordered(join(n.Namespace), m, ""))
		}
	}
	return keys
}

func gatewayBundleKeys(keys [][]byte, g *model.KubernetesGateway) [][]byte {
	for _, v := range g.Clients {
		for _, b := range v.Bundles {
			keys = append(keys, ordered(join(b.Namespace, b.Name), &g.Meta, ""))
		}
	}
	return keys
}

func routeSetKeys(keys [][]byte, r *model.AttachedRoute) [][]byte {
	for i := range r.Parents {
		if p := &r.Parents[i]; p.IsListenerSet() {
			keys = append(keys, routeKey(join(p.NamespaceIn(r.Namespace), p.Name), r))
		}
	}
	return keys
}

// listenerSetsOf yields the ListenerSets that name a Gateway, the oldest first.
func (s *Snapshot) listenerSetsOf(namespace, name string) iter.Seq[*model.ListenerSet] {
	return s.listenerSets.by[listenerSetsByParent].under(join(namespace, name))
}

func (s *Snapshot) listenerSet(namespace, name string) *model.ListenerSet {
	found, _ := s.listenerSets.by[listenerSetsByName].get(join(namespace, name))
	return found
}

// routeKey is the key of a route under a prefix. Routes of two kinds may have one name.
func routeKey(prefix []byte, r *model.AttachedRoute) []byte {
	return ordered(prefix, &r.Meta, model.Host(r.Kind))
}

func routeParentKeys(keys [][]byte, r *model.AttachedRoute) [][]byte {
	for i := range r.Parents {
		if p := &r.Parents[i]; p.IsGateway() {
			keys = append(keys, routeKey(join(p.NamespaceIn(r.Namespace), p.Name), r))
		}
	}
	return keys
}

func routeServiceKeys(keys [][]byte, r *model.AttachedRoute) [][]byte {
	for i := range r.Parents {
		if host := r.Parents[i].Host; host != "" {
			keys = append(keys, routeKey(join(string(host)), r))
		}
	}
	return keys
}

func routeDestinationKeys(keys [][]byte, r *model.AttachedRoute) [][]byte {
	for host := range destinationsOf(r) {
		if host != "" {
			keys = append(keys, routeKey(join(string(host)), r))
		}
	}
	return keys
}

func routeForeignKeys(keys [][]byte, r *model.AttachedRoute) [][]byte {
	for _, f := range r.Foreign {
		if f.Service != (model.ObjectName{}) {
			keys = append(keys, routeKey(join(f.Service.Namespace), r))
		}
	}
	return keys
}

// destinationsOf yields the hosts of all destinations and mirrors with their ports, some twice.
func destinationsOf(route *model.AttachedRoute) iter.Seq2[model.Host, uint16] {
	return func(yield func(model.Host, uint16) bool) {
		for _, r := range route.TCP {
			for _, d := range r.Destinations {
				if !yield(d.Host, d.Port) {
					return
				}
			}
		}
		for _, r := range route.HTTP {
			for _, d := range r.Destinations {
				if !yield(d.Host, d.Port) {
					return
				}
			}
			for _, m := range r.Mirrors {
				if !yield(m.Destination.Host, m.Destination.Port) {
					return
				}
			}
		}
	}
}

// GatewayAPIStatus returns what an object of the Gateway API has come to, nil if it is not
// Lateen's.
func (s *Snapshot) GatewayAPIStatus(kind kinds.Kind, namespace, name string) *model.GatewayAPIStatus {
	found, _ := s.gatewayAPIStatuses.by[gatewayAPIStatusesByObject].get(join(string(kind), namespace, name))
	return found
}

func (s *Snapshot) gatewayClass(name string) *model.GatewayClass {
	found, _ := s.gatewayClasses.by[gatewayClassesByName].get(join(name))
	return found
}

func (s *Snapshot) kubernetesGateway(namespace, name string) *model.KubernetesGateway {
	found, _ := s.kubernetesGateways.by[kubernetesGatewaysByName].get(join(namespace, name))
	return found
}

func backendTLSMeta(p *model.BackendTLSPolicy) *model.Meta { return &p.Meta }

// targetHosts returns the hosts that a policy is for, each once.
func targetHosts(p *model.BackendTLSPolicy) []model.Host {
	var hosts []model.Host
	for _, t := range p.Targets {
		hosts = append(hosts, t.Host)
	}
	return model.SortedDistinct(hosts)
}

func backendBundleKeys(keys [][]byte, p *model.BackendTLSPolicy) [][]byte {
	for _, name := range p.Bundles {
		keys = append(keys, ordered(join(p.Namespace, name), &p.Meta, ""))
	}
	return keys
}

// backendTLSOf yields the policies for a host, the oldest first.
func (s *Snapshot) backendTLSOf(host model.Host) iter.Seq[*model.BackendTLSPolicy] {
	return s.backendTLSPolicies.by[backendTLSPoliciesByTarget].under(join(string(host)))
}

func (s *Snapshot) certificateBundle(namespace, name string) *model.CertificateBundle {
	found, _ := s.certificateBundles.by[certificateBundlesByName].get(join(namespace, name))
	return found
}

// namespaceLabels returns the labels of a namespace. Its name is one of them, as API servers have
// it, even if nothing says that the namespace exists.
func (s *Snapshot) namespaceLabels(name string) model.Labels {
	const nameLabel = "kubernetes.io/metadata.name"
	if n, known := s.namespaces.by[namespacesByName].get(join(name)); known {
		return n.Labels.With(nameLabel, name)
	}
	return model.LabelsOf(map[string]string{nameLabel: name})
}

// fromGateway is where the references of a Gateway come from.
func fromGateway(g *model.KubernetesGateway) model.GrantFrom {
	return model.GrantFrom{Group: kinds.GatewayAPIGroup, Kind: "Gateway", Namespace: g.Namespace}
}

// missingGrant says that nothing allows a reference to an object of another namespace; without a
// reason if a ReferenceGrant does, or none is needed.
func (s *Snapshot) missingGrant(from model.GrantFrom, kind kinds.Kind, to model.ObjectName) model.Condition {
	if to.Namespace == from.Namespace ||
		s.grants(from, to.Namespace, model.GrantTo{Kind: string(kind), Name: to.Name}) {
		return model.Condition{}
	}
	return model.Condition{Reason: refNotPermitted, Message: fmt.Sprintf(
		"no ReferenceGrant in namespace %s allows the %s %s", to.Namespace, kind, to.Name,
	)}
}

// grants reports whether a namespace allows a reference to one of its objects.
func (s *Snapshot) grants(from model.GrantFrom, namespace string, to model.GrantTo) bool {
	for g := range s.referenceGrants.by[referenceGrantsByNamespace].under(join(namespace)) {
		if g.Allows(from, to) {
			return true
		}
	}
	return false
}
