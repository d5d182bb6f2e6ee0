package cluster

import "github.com/lateen-mesh/lateen/internal/api/model"

// Effective is the policy that is in force for one port of a destination or of a subset of it.
// Ports is nil in it, and its other fields are nil where nothing was said. This is the one place
// where policies are merged:
//
//   - A policy with settings for the port is those settings alone; what they leave out takes
//     Istio's defaults, it is not inherited (DestinationRule.trafficPolicy.portLevelSettings).
//   - A subset's policy replaces the destination's field by field, except that its own settings for
//     the port replace all of it.
//   - The PROXY protocol is no setting of a port. The destination's does not hold at ports with
//     settings of their own, unless the subset says it again.
//   - A tunnel is none of the cluster's, and not in the result: it is for those who connect.
//   - The TLS that the Service's owner demands (BackendTLSPolicy) holds where neither of them says
//     anything of TLS, as in Istio. backend is nil for none.
func Effective(policy, subset, backend *model.TrafficPolicy, port uint16) model.TrafficPolicy {
	merged := clientPolicy(policy, subset, port)
	if merged.TLS == nil {
		demanded, _ := forPort(backend, port)
		merged.TLS = demanded.TLS
	}
	return merged
}

// clientPolicy is what the clients of a destination say.
func clientPolicy(policy, subset *model.TrafficPolicy, port uint16) model.TrafficPolicy {
	merged, _ := forPort(policy, port)
	over, whole := forPort(subset, port)
	if over.Budget != nil {
		merged.Budget = over.Budget
	}
	if over.Announces != model.NoProxyProtocol {
		merged.Announces = over.Announces
	}
	if whole { // settings for a port have none of these
		over.Budget, over.Announces = merged.Budget, merged.Announces
		return over
	}
	if over.LB != nil {
		merged.LB = over.LB
	}
	if over.Pool != nil {
		merged.Pool = over.Pool
	}
	if over.Outlier != nil {
		merged.Outlier = over.Outlier
	}
	if over.TLS != nil {
		merged.TLS = over.TLS
	}
	return merged
}

// forPort is the part of one policy that is for the port, and whether it comes from settings of the
// port's own.
func forPort(p *model.TrafficPolicy, port uint16) (model.TrafficPolicy, bool) {
	if p == nil {
		return model.TrafficPolicy{}, false
	}
	own, budget := p.Ports, p.Budget
	whole := false
	for _, pp := range own {
		if pp.Port == port && pp.Policy != nil {
			p, whole = pp.Policy, true
			break
		}
	}
	return model.TrafficPolicy{
		LB:        p.LB,
		Pool:      p.Pool,
		Outlier:   p.Outlier,
		TLS:       p.TLS,
		Announces: p.Announces,
		Budget:    budget,
	}, whole
}
