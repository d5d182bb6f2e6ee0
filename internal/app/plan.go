package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/fields"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
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

// planWait is how long a plan waits for others, such as those that the webhook makes for a budget.
const planWait = 3 * time.Second

// errTooMany is the error of a plan of too many objects.
var errTooMany = fmt.Errorf("want at most %d objects", maxPlanned)

// plan says what applying manifests would do to the connected proxies. Plans are made one at a
// time.
func (p *Pipeline) plan(ctx context.Context, q page.PlanQuestion) (*page.Plan, error) {
	busy := time.NewTimer(planWait)
	defer busy.Stop()
	select {
	case p.planning <- struct{}{}:
	case <-busy.C:
		return nil, admin.ErrBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, examineLimit)
	defer cancel()
	read, err := readPlanned(q)
	if err != nil {
		<-p.planning
		return nil, err
	}
	var seen schedule.Foreseen
	var effects compile.Foresight
	err = p.foresee(ctx, read.changes, func(f schedule.Foreseen) {
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
	appeared := slices.Concat(seen.Appeared, effects.Appeared)
	mended := slices.Concat(seen.Mended, effects.Fixed)
	out.Appeared = shownProblems(read.problems, without(appeared, mended))
	out.Mended = shownProblems(without(mended, appeared))
	out.Notes = shownProblems(read.notes)
	return out, nil
}

// foresee has the loop foresee changes. The caller has taken the place in p.planning; foresee frees
// it when the loop is done, which may be after ctx has ended.
func (p *Pipeline) foresee(ctx context.Context, changes []source.Change, f func(schedule.Foreseen)) error {
	began, ended := make(chan struct{}), make(chan struct{})
	err := p.loop.Foresee(ctx, changes, p.born(), func(seen schedule.Foreseen) {
		defer close(ended)
		close(began)
		f(seen)
	})
	free := func() { <-p.planning }
	select {
	case <-began:
		go func() { <-ended; free() }()
	default:
		free()
	}
	return err
}

// without returns the problems that others do not have, wherever they stand: an object that is
// there in a cluster stands in a file in a plan.
func without(problems, others []source.Problem) (left []source.Problem) {
	known := map[source.Problem]bool{}
	for _, p := range others {
		p.Origin = ""
		known[p] = true
	}
	for _, p := range problems {
		bare := p
		if bare.Origin = ""; !known[bare] {
			left = append(left, p)
		}
	}
	return left
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
	notes     []source.Problem // of what is not read, or goes
}

// readPlanned reads the manifests of a question. What is refused is left out with a problem.
func readPlanned(q page.PlanQuestion) (planned, error) {
	var out planned
	winners := map[source.Key]manifest.Document{}
	now := time.Now()
	for _, f := range q.Files {
		reading := manifest.ReadFile(f.Name, []byte(f.Content))
		for _, p := range reading.Problems {
			if q.Delete || p.Object.Kind != "" && !isRead(p.Object.Kind) {
				out.notes = append(out.notes, p)
			} else {
				out.problems = append(out.problems, p)
			}
		}
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
			if len(out.changes) > maxPlanned {
				return out, errTooMany
			}
		}
	}
	return out, nil
}

// isRead tells whether the control plane of a cluster reads a kind.
func isRead(k kinds.Kind) bool {
	d := kinds.Of(k)
	return d.Kind == k && !d.LocalOnly // that of a kind which is not read has no name
}

// objects says what would become of each object.
func (r *planned) objects(seen schedule.Foreseen) []page.PlannedObject {
	list := []page.PlannedObject{}
	deleted, changed := map[source.Key]bool{}, map[source.Key]bool{}
	for _, c := range r.changes {
		deleted[c.Key] = c.Object == nil
	}
	for _, k := range seen.Delta.Changed {
		changed[k] = true
	}
	for _, d := range r.documents {
		o := page.PlannedObject{
			Kind: string(d.Key.Kind), Namespace: d.Key.Namespace, Name: d.Key.Name, Origin: d.Origin,
		}
		switch {
		case deleted[d.Key] && changed[d.Key]:
			o.Verb = page.Deleted
		case d.Refused() && !deleted[d.Key]:
			o.Verb = page.Refused
		case !isRead(d.Key.Kind):
			o.Verb = page.NotJudged
		case !changed[d.Key]:
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
		differ := fields.Texts(admin.Render(c.Type, c.Before), admin.Render(c.Type, c.After))
		out.Fields = differ[:min(len(differ), shownFields)]
		out.Left = len(differ) - len(out.Fields)
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
