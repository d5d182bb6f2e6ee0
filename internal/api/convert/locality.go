package convert

import (
	"cmp"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// localityLB reads a locality policy. A mistake leaves none, so that requests go to more endpoints.
func (r *reader) localityLB(p path, in *networking.LocalityLoadBalancerSetting) *model.LocalityLB {
	if in == nil {
		return nil
	}
	start := r.mark()
	if in.GetEnabled() != nil && !in.GetEnabled().GetValue() {
		return r.pools.localities.Canonical(&model.LocalityLB{Off: true})
	}
	out := &model.LocalityLB{}
	if len(in.GetDistribute()) > 0 && len(in.GetFailover())+len(in.GetFailoverPriority()) > 0 {
		r.fail(p, nil, "has distribute beside failover or failoverPriority", "one of them")
	}
	for i, d := range in.GetDistribute() {
		out.Distribute = append(out.Distribute, r.distribute(p.dot("distribute").at(i), d))
	}
	out.Failover = failover(r, p.dot("failover"), in.GetFailover())
	out.FailoverPriority = r.failoverPriority(p.dot("failoverPriority"), in.GetFailoverPriority())
	if r.failure(start, p) != "" {
		return nil
	}
	return r.pools.localities.Canonical(out)
}

// zoneAwareLB reads a policy that leaves zones to proxies. A mistake leaves none, as in localityLB.
func (r *reader) zoneAwareLB(p path, in *networking.ZoneAwareLoadBalancerSetting) *model.LocalityLB {
	start := r.mark()
	out := &model.LocalityLB{ZoneAware: true, MinClusterSize: in.GetMinClusterSize().GetValue()}
	if in.GetMinClusterSize() != nil && out.MinClusterSize == 0 {
		r.fail(p.dot("minClusterSize"), 0, "is no number of endpoints", "a number from 1")
	}
	if in.GetEnabled() != nil && !in.GetEnabled().GetValue() {
		out.Off = true
		return r.pools.localities.Canonical(out)
	}
	out.Failover = failover(r, p.dot("failover"), in.GetFailover())
	out.FailoverPriority = r.failoverPriority(p.dot("failoverPriority"), in.GetFailoverPriority())
	for i, l := range out.FailoverPriority {
		if _, place := (model.Locality{}).Label(l.Key); place && !l.Fixed {
			r.fail(p.dot("failoverPriority").at(i), l.Key, "is a label of places, whose order zoneAwareLbSetting gives",
				"failover for the order of regions")
		}
	}
	if r.failure(start, p) != "" {
		return nil
	}
	return r.pools.localities.Canonical(out)
}

// regions is a message that says where the calls of a region go.
type regions interface {
	GetFrom() string
	GetTo() string
}

// failover is one for the messages of both settings.
func failover[T regions](r *reader, p path, list []T) (out []model.Failover) {
	for i, f := range list {
		at := p.at(i)
		r.region(at.dot("from"), f.GetFrom())
		r.region(at.dot("to"), f.GetTo())
		if f.GetFrom() == f.GetTo() {
			r.fail(at.dot("to"), f.GetTo(), "is the region that fails", "another region")
		}
		out = append(out, model.Failover{From: f.GetFrom(), To: f.GetTo()})
	}
	return out
}

func (r *reader) failoverPriority(p path, list []string) (out []model.PriorityLabel) {
	for i, text := range list {
		key, value, fixed := strings.Cut(text, "=")
		if key == "" {
			r.fail(
				p.at(i), text, "is no label", `the name of a label, as "topology.kubernetes.io/zone", or "name=value"`,
			)
		}
		out = append(out, model.PriorityLabel{Key: key, Value: value, Fixed: fixed})
	}
	return out
}

func (r *reader) region(p path, name string) {
	if name == "" || strings.ContainsAny(name, "*/") {
		r.fail(p, name, "is no region", `the name of a region, as "us-east1"`)
	}
}

// percentSum is the sum of the parts of a distribution.
const percentSum = 100

func (r *reader) distribute(p path, in *networking.LocalityLoadBalancerSetting_Distribute) model.Distribute {
	out := model.Distribute{From: r.localityPattern(p.dot("from"), in.GetFrom())}
	total := uint64(0)
	for _, to := range sortedKeys(in.GetTo()) {
		at, percent := p.dot("to").key(to), in.GetTo()[to]
		if percent == 0 || percent > percentSum {
			r.fail(at, percent, "is no part in percent", "a number from 1 to 100")
		}
		total += uint64(percent)
		out.To = append(out.To, model.LocalityShare{To: r.localityPattern(at, to), Percent: percent})
	}
	if total != percentSum {
		r.fail(p.dot("to"), total, "is the sum of the parts", "parts that add up to 100")
	}
	slices.SortStableFunc(
		out.To, func(a, b model.LocalityShare) int { return cmp.Compare(wildcardParts(a.To), wildcardParts(b.To)) },
	)
	return out
}

// wildcardParts counts the parts of a pattern that stand for any.
func wildcardParts(p model.LocalityPattern) int {
	n := 0
	for _, part := range []string{p.Region, p.Zone, p.Subzone} {
		if part == "" || part == "*" {
			n++
		}
	}
	return n
}

func (r *reader) localityPattern(p path, text string) model.LocalityPattern {
	parts := strings.Split(text, "/")
	if len(parts) > 3 || slices.Contains(parts, "") {
		r.fail(
			p, text, "is no place",
			`"region/zone/subzone", where "*" stands for any and the later parts may be left out`,
		)
	}
	if i := slices.Index(parts, "*"); i >= 0 && i < len(parts)-1 {
		r.fail(p, text, "has something below any", `"*" as the last part`)
	}
	return model.LocalityPattern(model.ParseLocality(text))
}
