package scope

import (
	"cmp"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// PortPool is what a rule says of connections to the workload's process at one of its ports.
type PortPool struct {
	Port uint16
	Pool *model.ConnectionPool // canonical
}

// portPools returns the pools of a workload's ports, by port. As in Istio the rule is that of the
// first service which leads to the port, as the workload's namespace sees it, and rules that select
// workloads are for their calls alone.
func (c *Classifier) portPools(snap *state.Snapshot, namespace string, all []target) []PortPool {
	if !snap.HasPools() {
		return nil
	}
	var found []PortPool
	seen := map[uint16]bool{}
	own := &Scope{snapshot: snap, class: &Class{Namespace: namespace}}
	for _, t := range all {
		if seen[t.port] {
			continue
		}
		seen[t.port] = true
		rule := own.ruleFor(t.service)
		if rule == nil {
			continue
		}
		pool := rule.Policy.PoolAt(t.Port).AtServer()
		if pool != nil && (*pool != (model.ConnectionPool{}) || snap.Mesh.Clusters.PoolOf(nil) != nil) {
			found = append(found, PortPool{t.port, c.canonical.Canonical(pool)})
		}
	}
	slices.SortFunc(found, func(a, b PortPool) int { return cmp.Compare(a.Port, b.Port) })
	return found
}

// InboundPool returns what is said of connections to the workload's process at one of its ports;
// nil for nothing. What the Sidecar says comes before rules.
func (s *Scope) InboundPool(port uint16) *model.ConnectionPool {
	s.dependsOnPorts()
	found := s.poolAt(port)
	s.asked(question{kind: whichPool, port: port}, answer{is: found})
	return found
}

func (s *Scope) poolAt(port uint16) *model.ConnectionPool {
	if s.sidecar != nil {
		for i := range s.sidecar.Ingress {
			if in := &s.sidecar.Ingress[i]; in.Port == port && in.Pool != nil {
				return in.Pool
			}
		}
		if s.sidecar.Pool != nil {
			return s.sidecar.Pool
		}
	}
	for p := range s.class.Pools.All() {
		if p.Port == port {
			return p.Pool
		}
	}
	return nil
}

// addPools adds the services to which changed rules may apply where rules limit connections: those
// of the rule's namespace, or all if it is the root namespace. A rule that limits nothing may come
// before one that does. Another root namespace may concern all rules, and another name of the
// workloads' ports in statistics all services.
func (m *Moves) addPools() {
	if m.delta.Mesh && m.delta.From.Mesh.InboundStatName != m.delta.To.Mesh.InboundStatName {
		for svc := range m.delta.To.Services() {
			m.addPooled(svc)
		}
		return
	}
	if !m.delta.From.HasPools() && !m.delta.To.HasPools() {
		return
	}
	if m.delta.Mesh {
		for svc := range m.delta.To.Services() {
			m.addPooled(svc)
		}
		return
	}
	root := m.delta.To.Mesh.RootNamespace
	for _, p := range m.delta.DestinationRules {
		for _, r := range []*model.DestinationRule{p.Old, p.New} {
			if r == nil || !r.Selector.IsEmpty() {
				continue
			}
			for host := range m.delta.To.HostsUnder(r.Host) {
				for svc := range m.delta.To.Claims(host) {
					if r.Namespace == root || r.Namespace == svc.Namespace {
						m.addPooled(svc)
					}
				}
			}
		}
	}
}

func (m *Moves) addPooled(svc *model.Service) {
	if m.pooled == nil {
		m.pooled = map[string][]*model.Service{}
	}
	m.pooled[svc.Namespace] = append(m.pooled[svc.Namespace], svc)
}

// Pooled returns the namespaces with workloads that such rules may concern.
func (m Moves) Pooled() []string { return slices.Collect(maps.Keys(m.pooled)) }
