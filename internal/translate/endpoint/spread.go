package endpoint

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Site is a group of endpoints that no caller tells apart: of one locality, with the same values of
// the labels that matter.
type Site struct {
	Locality model.Locality
	Marks    model.Labels // of Preference.Marks
	Weight   uint64       // the sum over its endpoints
}

// Preference is how the place of a caller decides on the order of sites. It is comparable: it is
// part of a memo's key.
type Preference struct {
	Locality *model.LocalityLB // canonical; nil prefers none
	// Hinted prefers the endpoints whose hints name the caller's zone. Where hints cannot be
	// followed, Locality holds.
	Hinted bool
	// NodeLocal leaves out all that is not on the caller's node.
	NodeLocal bool
}

// Share is what a caller sees of a site.
type Share struct {
	LeftOut  bool
	Priority uint32
	Weight   uint32 // 0: unset
}

// IsNone tells that all callers see the same.
func (p Preference) IsNone() bool { return p == Preference{} }

// HasWeights tells that localities have weights of their own.
func (p Preference) HasWeights() bool { return p.Locality != nil && len(p.Locality.Distribute) > 0 }

// Keys returns the labels of a caller, and of its place, that the order depends on; sorted, each
// once.
func (p Preference) Keys() []string {
	var keys []string
	if p.NodeLocal {
		keys = append(keys, model.HostnameLabel)
	}
	if p.Hinted {
		keys = append(keys, model.ZoneLabel)
	}
	if p.Locality != nil {
		keys = append(keys, keysOf(p.Locality)...)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func keysOf(lb *model.LocalityLB) []string {
	var keys []string
	for _, l := range lb.FailoverPriority {
		if !l.Fixed {
			keys = append(keys, l.Key)
		}
	}
	switch {
	case lb.ZoneAware:
		keys = append(keys, model.RegionLabel)
	case len(lb.FailoverPriority) == 0 || len(lb.Failover) > 0:
		keys = append(keys, model.RegionLabel, model.ZoneLabel, model.SubzoneLabel)
	}
	return keys
}

// Marks returns the labels of endpoints that the order depends on, beside their locality; sorted,
// each once.
func (p Preference) Marks() []string {
	var keys []string
	if p.NodeLocal {
		keys = append(keys, model.HostnameLabel)
	}
	if p.Hinted {
		keys = append(keys, model.HintsMark)
	}
	if p.Locality != nil {
		for _, l := range p.Locality.FailoverPriority {
			if _, place := (model.Locality{}).Label(l.Key); !place {
				keys = append(keys, l.Key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Spread orders sites for a caller. near has the caller's values of Keys. The result is by the
// index of the sites.
func (p Preference) Spread(sites []Site, near model.Labels) []Share {
	shares := make([]Share, len(sites))
	if p.NodeLocal {
		node, _ := near.Get(model.HostnameLabel)
		for i, s := range sites {
			shares[i].LeftOut = s.label(model.HostnameLabel) != node
		}
	}
	switch lb := p.Locality; {
	case p.Hinted && !p.NodeLocal && rankByHints(sites, placeOf(near).Zone, shares):
	case lb == nil:
	case len(lb.Distribute) > 0:
		distribute(lb.Distribute, sites, placeOf(near), shares)
	default:
		rank(lb, sites, near, shares)
	}
	return shares
}

// rankByHints gives the first priority to the sites that are for a zone, and the second to the
// others. As with kube-proxy, hints cannot be followed if an endpoint has none, or none is for the
// zone, and they do not count where calls stay on the node. A kube-proxy would leave the others
// out. Here they get the calls when the first ones fail.
func rankByHints(sites []Site, zone string, shares []Share) bool {
	meant := make([]bool, len(sites))
	for i, s := range sites {
		hints, has := s.Marks.Get(model.HintsMark)
		if !has {
			return false
		}
		meant[i] = model.Zones(hints).Has(zone)
	}
	if !slices.Contains(meant, true) {
		return false
	}
	for i := range shares {
		if !meant[i] {
			shares[i].Priority = 1
		}
	}
	return true
}

func (s *Site) label(key string) string {
	if v, place := s.Locality.Label(key); place {
		return v
	}
	v, _ := s.Marks.Get(key)
	return v
}

func placeOf(near model.Labels) model.Locality {
	var l model.Locality
	l.Region, _ = near.Get(model.RegionLabel)
	l.Zone, _ = near.Get(model.ZoneLabel)
	l.Subzone, _ = near.Get(model.SubzoneLabel)
	return l
}

// distribute gives the sites their parts by the first rule for the caller's place. Sites that it
// does not name are left out. Sites that share one part divide it by their weights.
func distribute(rules []model.Distribute, sites []Site, from model.Locality, shares []Share) {
	i := slices.IndexFunc(rules, func(d model.Distribute) bool { return d.From.Matches(from) })
	if i < 0 {
		for i, s := range sites {
			shares[i].Weight = clamp(s.Weight)
		}
		return
	}
	part := make([]int, len(sites))
	totals := make([]uint64, len(rules[i].To))
	for n, s := range sites {
		part[n] = slices.IndexFunc(rules[i].To, func(t model.LocalityShare) bool { return t.To.Matches(s.Locality) })
		if part[n] >= 0 && !shares[n].LeftOut {
			totals[part[n]] += s.Weight
		}
	}
	for n, s := range sites {
		if part[n] < 0 {
			shares[n].LeftOut = true
			continue
		}
		percent := uint64(rules[i].To[part[n]].Percent)
		shares[n].Weight = clamp(percent * fineness * s.Weight / max(totals[part[n]], 1))
	}
}

// fineness is into how many parts a percent may be shared among sites.
const fineness = 1000

// clamp makes a weight that Envoy takes: localities have one from 1, and the sum of them fits into
// 32 bits.
func clamp(weight uint64) uint32 { return uint32(min(max(weight, 1), 1<<20)) }

// rank gives the sites priorities, without gaps, from 0.
func rank(lb *model.LocalityLB, sites []Site, near model.Labels, shares []Share) {
	raw := make([]int, len(sites))
	from := placeOf(near)
	for i, s := range sites {
		if len(lb.FailoverPriority) > 0 {
			raw[i] = labelRank(lb.FailoverPriority, s, near)
		}
		if lb.ZoneAware || len(lb.FailoverPriority) == 0 || len(lb.Failover) > 0 {
			raw[i] = raw[i]*placeRanks + placeRank(lb, s.Locality, from)
		}
	}
	var known []int
	for i := range sites {
		if !shares[i].LeftOut {
			known = append(known, raw[i])
		}
	}
	slices.Sort(known)
	known = slices.Compact(known)
	for i := range sites {
		n, _ := slices.BinarySearch(known, raw[i])
		shares[i].Priority = uint32(n)
	}
}

// labelRank is how many of the labels, from the last one, count for nothing because the site and
// the caller differ.
func labelRank(labels []model.PriorityLabel, s Site, near model.Labels) int {
	for i, l := range labels {
		want := l.Value
		if !l.Fixed {
			want, _ = near.Get(l.Key)
		}
		if s.label(l.Key) != want {
			return len(labels) - i
		}
	}
	return 0
}

// placeRanks is how many ranks placeRank knows.
const placeRanks = 5

// placeRank is 0 for the caller's own subzone, 1 for its zone, 2 for its region and 3 for others.
// It is 4 for regions to which calls of the caller's region do not fail over. Where zones are left
// to proxies, it is 0 for all of the caller's region.
func placeRank(lb *model.LocalityLB, at, from model.Locality) int {
	switch {
	case at == from || lb.ZoneAware && at.Region == from.Region:
		return 0
	case at.Region == from.Region && at.Zone == from.Zone:
		return 1
	case at.Region == from.Region:
		return 2
	}
	for _, f := range lb.Failover {
		if f.From != from.Region {
			continue
		}
		if at.Region != f.To {
			return 4
		}
		break
	}
	return 3
}
