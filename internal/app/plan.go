package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

const (
	// maxPlanned is how many objects a plan has at most. The mesh waits while it is made.
	maxPlanned = 5000
	// shownFields is how many fields of a resource a plan shows.
	shownFields = 40
)

// errTooMany is the error of a plan of too many objects.
var errTooMany = fmt.Errorf("want at most %d objects", maxPlanned)

// plan says what applying manifests would do to the connected proxies. Plans are made one at a
// time.
func (p *Pipeline) plan(ctx context.Context, q page.PlanQuestion) (*page.Plan, error) {
	select {
	case p.planning <- struct{}{}:
		defer func() { <-p.planning }()
	default:
		return nil, admin.ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	read := readPlanned(q)
	if len(read.changes) > maxPlanned {
		return nil, errTooMany
	}
	var seen schedule.Foreseen
	var effects compile.Foresight
	err := p.loop.Foresee(ctx, read.changes, p.born(), func(f schedule.Foreseen) {
		if seen = f; !f.Delta.IsEmpty() {
			effects = p.compiler.Foresee(f.Delta)
		}
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the mesh is busy: there is no plan after %v; try again", examineLimit)
	case err != nil:
		return nil, err
	}
	out := planOf(effects)
	out.Objects = read.objects(seen)
	out.Appeared = shownProblems(read.problems, seen.Appeared, effects.Appeared)
	out.Mended = shownProblems(seen.Mended, effects.Fixed)
	return out, nil
}

// born is the age of objects that a plan creates: none outside of a cluster, where no object has
// one.
func (p *Pipeline) born() time.Time {
	if p.o.Cluster == nil {
		return time.Time{}
	}
	return time.Now()
}

// planned is what a question names.
type planned struct {
	documents []manifest.Document
	changes   []source.Change
	problems  []source.Problem
}

// readPlanned reads the manifests of a question. What is refused is left out with a problem.
func readPlanned(q page.PlanQuestion) planned {
	var out planned
	winners := map[source.Key]manifest.Document{}
	now := time.Now()
	for _, f := range q.Files {
		reading := manifest.ReadFile(f.Name, []byte(f.Content))
		out.problems = append(out.problems, reading.Problems...)
		if reading.Broken {
			continue
		}
		for _, d := range reading.Documents {
			if winner, taken := winners[d.Key]; taken {
				out.problems = append(out.problems, manifest.Duplicate(d, winner))
				continue
			}
			winners[d.Key] = d
			out.documents = append(out.documents, d)
			change := d.Change(now)
			switch {
			case q.Delete:
				change.Object = nil
			case d.Refused():
				continue
			}
			out.changes = append(out.changes, change)
		}
	}
	return out
}

// objects says what would become of each object.
func (r *planned) objects(seen schedule.Foreseen) []page.PlannedObject {
	list := []page.PlannedObject{}
	deleted := map[source.Key]bool{}
	for _, c := range r.changes {
		deleted[c.Key] = c.Object == nil
	}
	for _, d := range r.documents {
		o := page.PlannedObject{
			Kind: string(d.Key.Kind), Namespace: d.Key.Namespace, Name: d.Key.Name, Origin: d.Origin,
		}
		changes := slices.Contains(seen.Delta.Changed, d.Key)
		switch {
		case deleted[d.Key] && changes:
			o.Verb = page.Deleted
		case d.Refused() && !deleted[d.Key]:
			o.Verb = page.Refused
		case !changes:
			o.Verb = page.Unchanged
		case seen.New[d.Key]:
			o.Verb = page.Created
		default:
			o.Verb = page.Changes
		}
		list = append(list, o)
	}
	return list
}

// planOf shows what proxies would get.
func planOf(f compile.Foresight) *page.Plan {
	out := &page.Plan{Classes: f.Classes, Namespaces: f.Namespaces, Effects: []page.PlannedEffect{}}
	for i := range f.Effects {
		e := &f.Effects[i]
		out.Proxies += e.Proxies
		out.Bytes += int64(e.Bytes()) * int64(e.Proxies)
		if e.Drains() {
			out.Drained += e.Proxies
		}
		if i < shownEffects {
			out.Effects = append(out.Effects, plannedEffect(e))
		} else {
			out.Left++
		}
	}
	return out
}

func plannedEffect(e *compile.Effect) page.PlannedEffect {
	out := page.PlannedEffect{
		Proxy: e.Proxy + "." + e.Namespace, Proxies: e.Proxies, Bytes: e.Bytes(), Drains: e.Drains(),
	}
	for i, c := range e.Changes {
		if i == shownChanges {
			out.Left = len(e.Changes) - i
			break
		}
		out.Changes = append(out.Changes, plannedChange(c))
	}
	return out
}

func plannedChange(c compile.Changed) page.PlannedChange {
	out := page.PlannedChange{Type: c.Type.String(), Name: c.Name(), Verb: page.Changes}
	switch {
	case c.Before == nil:
		out.Verb = page.Created
	case c.After == nil:
		out.Verb = page.Deleted
	case c.Type != resource.Secret:
		fields := admin.ChangedFields(c.Type, c.Before, c.After)
		out.Fields = fields[:min(len(fields), shownFields)]
		out.Left = len(fields) - len(out.Fields)
	}
	return out
}

func shownProblems(lists ...[]source.Problem) []page.Problem {
	all := slices.Concat(lists...)
	slices.SortFunc(all, source.Problem.Compare)
	shown := []page.Problem{}
	for _, p := range slices.Compact(all) {
		shown = append(shown, page.ProblemOf(p))
	}
	return shown
}
