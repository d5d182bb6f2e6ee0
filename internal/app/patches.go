package app

import (
	"context"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Of what an object changes no more is shown than people read.
const (
	shownEffects = 10
	shownChanges = 30
	// examineLimit is how long an answer waits for the mesh to be compiled.
	examineLimit = 10 * time.Second
)

// patchEffects says what the patches of an object do: what would change for connected proxies if it
// were deleted. It returns nil if there is no such object.
func (p *Pipeline) patchEffects(q page.ObjectQuestion) (*page.PatchEffects, error) {
	key := source.Key{Kind: kinds.Kind(q.Kind), Namespace: q.Namespace, Name: q.Name}
	ctx, cancel := context.WithTimeout(context.Background(), examineLimit)
	defer cancel()
	var filter *model.EnvoyFilter
	var seen compile.Foresight
	err := p.loop.Examine(ctx, func(w *state.Writer) {
		_, without := w.Fork().Apply([]state.Update{{Key: key}})
		if len(without.EnvoyFilters) == 0 {
			return
		}
		filter = without.EnvoyFilters[0].Old
		seen = p.compiler.Foresee(without)
	})
	if err != nil || filter == nil {
		return nil, err
	}
	out := &page.PatchEffects{Kind: q.Kind, Namespace: q.Namespace, Name: q.Name, Effects: []page.Effect{}}
	out.Patches = patchesOf(filter, p.compiler.PatchMatches())
	for _, e := range seen.Effects[:min(len(seen.Effects), shownEffects)] {
		out.Effects = append(out.Effects, effectOf(e))
	}
	return out, nil
}

// patchesOf lists the patches of an object with what they match.
func patchesOf(filter *model.EnvoyFilter, matches []compile.PatchMatches) []page.PatchEffect {
	by := map[int]compile.PatchMatches{}
	for _, m := range matches {
		if m.Owner == filter.Key() {
			by[m.Index] = m
		}
	}
	list := []page.PatchEffect{}
	for _, of := range filter.Patches {
		m := by[of.Index]
		list = append(list, page.PatchEffect{
			Patch: of.Index, Target: of.Target.String(), Operation: of.Operation.String(),
			Selected: m.Selected, Proxies: m.Proxies, Resources: m.Resources, Failed: m.Failed,
		})
	}
	return list
}

// effectOf shows what an object changes, by what would be there without it.
func effectOf(e compile.Effect) page.Effect {
	out := page.Effect{Proxy: e.Proxy + "." + e.Namespace, Proxies: e.Proxies}
	for i, c := range e.Changes {
		if i == shownChanges {
			out.Left = len(e.Changes) - i
			break
		}
		out.Changes = append(out.Changes, page.ChangedResource{
			Type: c.Type.String(), Name: c.Name(),
			Without: admin.Render(c.Type, c.After), With: admin.Render(c.Type, c.Before),
		})
	}
	return out
}
