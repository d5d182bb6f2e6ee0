package local

import (
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// metered is what Istio's metrics call a pod.
type metered struct {
	workload  proxystats.Workload
	principal string
}

func meteredOf(p *pod, trustDomain string) *metered {
	w := proxystats.Of(proxystats.Pod{
		Namespace: p.object.Namespace, Name: p.object.Name, Owner: p.owner.Name,
		Label: func(key string) string { return p.object.Labels[key] },
	})
	w.Cluster = clusterID
	return &metered{
		workload:  w,
		principal: model.IdentityOf(trustDomain, p.object.Namespace, p.object.Spec.ServiceAccountName),
	}
}

// identify adds to the environment of an Envoy what it says of its pod, to peers and in spans.
func (m *metered) identify(env *environment) {
	env.set(proxystats.PeerVariable, m.workload.String())
	for _, v := range m.workload.SpanVariables(func(name string) string { v, _ := env.lookup(name); return v }) {
		name, value, _ := strings.Cut(v, "=")
		env.set(name, value)
	}
}
