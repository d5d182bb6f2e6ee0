package compile

import (
	"cmp"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// site is what the endpoints of one siteGroup have in common. No caller tells them apart.
type site struct {
	locality model.Locality
	marks    model.Labels
}

type siteGroup struct {
	site
	weight  uint64 // the sum over the members
	members *resource.Set
}

// siteEdit is a change of one endpoint of a group.
type siteEdit struct {
	at          site
	edit        resource.Edit
	weightDelta int64
}

func (k *groupKey) put(id state.EndpointID, e model.Endpoint, r *resource.Resource) siteEdit {
	return siteEdit{at: k.site(e), edit: resource.Edit{Name: string(id), Resource: r}, weightDelta: weightOf(e)}
}

func (k *groupKey) drop(id state.EndpointID, e model.Endpoint) siteEdit {
	return siteEdit{at: k.site(e), edit: resource.Edit{Name: string(id)}, weightDelta: -weightOf(e)}
}

func weightOf(e model.Endpoint) int64 {
	return int64(min(max(e.Weight, 1), endpoint.MaxWeight))
}

func (k *groupKey) site(e model.Endpoint) site {
	s := site{locality: e.Locality}
	if k.marks.Len() == 0 {
		return s
	}
	marks := map[string]string{}
	for label := range k.marks.All() {
		if v, ok := e.Labels.Get(label); ok {
			marks[label] = v
		}
		switch {
		case label == model.HostnameLabel && e.Node != "":
			marks[label] = e.Node
		case label == model.HintsMark && e.Hints != "":
			marks[label] = string(e.Hints)
		}
	}
	s.marks = model.LabelsOf(marks)
	return s
}

// apply makes the edits in the sets of their sites. Of several edits of an endpoint the last one
// counts. Sites without endpoints are dropped.
func (g *groups) apply(old *groupList, edits []siteEdit) *groupList {
	slices.SortStableFunc(edits, func(a, b siteEdit) int { return a.at.compare(b.at) })
	sites, rest := make([]siteGroup, 0, len(old.sites)+1), old.sites
	for len(edits) > 0 {
		group := siteGroup{site: edits[0].at, members: resource.Empty()}
		i, known := slices.BinarySearchFunc(rest, group.site, func(g siteGroup, s site) int { return g.compare(s) })
		sites = append(sites, rest[:i]...)
		if known {
			group = rest[i]
			i++
		}
		rest = rest[i:]
		if edits = group.applyFirst(g.store, edits); group.members.Len() > 0 {
			sites = append(sites, group)
		}
	}
	sites = append(sites, rest...)
	if slices.Equal(sites, old.sites) {
		return old
	}
	return &groupList{of: old.of, sites: sites}
}

// applyFirst makes the first edits, which are those of the group's site, and returns the others.
func (s *siteGroup) applyFirst(st *resource.Store, edits []siteEdit) []siteEdit {
	var list []resource.Edit
	for len(edits) > 0 && edits[0].at == s.site {
		list = append(list, edits[0].edit)
		s.weight = uint64(int64(s.weight) + edits[0].weightDelta)
		edits = edits[1:]
	}
	s.members = st.Apply(s.members, list)
	return edits
}

func (s site) compare(o site) int {
	return cmp.Or(
		cmp.Compare(s.locality.Region, o.locality.Region), cmp.Compare(s.locality.Zone, o.locality.Zone),
		cmp.Compare(s.locality.Subzone, o.locality.Subzone), s.marks.Compare(o.marks),
	)
}
