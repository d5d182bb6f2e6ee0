package compile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// PatchMatches says what a patch of an EnvoyFilter does to the connected proxies.
type PatchMatches struct {
	Owner source.Key
	Index int // in the patches of the owner
	// Selected is how many proxies the patch is for, and Proxies how many of them have something
	// that it matches: Resources in all.
	Selected, Proxies, Resources int
	// Failed is how many of the Resources it cannot be applied to.
	Failed int
}

// String says it in a line for people.
func (m PatchMatches) String() string {
	line := fmt.Sprintf("%s: %d resources of %d proxies (for %d)",
		pathOfPatch(patchRef{m.Owner, m.Index}), m.Resources, m.Proxies, m.Selected)
	if m.Failed > 0 {
		line += fmt.Sprintf(", left out in %d of them", m.Failed)
	}
	return line
}

// PatchMatches returns what the patches that are for connected proxies match, by owner and index.
// It looks at each class.
func (c *Compiler) PatchMatches() []PatchMatches {
	c.mu.Lock()
	defer c.mu.Unlock()
	by := map[patchRef]*PatchMatches{}
	for _, cl := range c.list {
		for ref, n := range cl.counted.of {
			if by[ref] == nil {
				by[ref] = &PatchMatches{Owner: ref.owner, Index: ref.index}
			}
			by[ref].add(n, cl.members)
		}
	}
	var list []PatchMatches
	for _, m := range by {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b PatchMatches) int {
		return cmp.Or(a.Owner.Compare(b.Owner), cmp.Compare(a.Index, b.Index))
	})
	return list
}

func (m *PatchMatches) add(n patchCount, proxies int) {
	m.Selected += proxies
	m.Resources += n.resources * proxies
	for _, failed := range n.failed {
		m.Failed += failed * proxies
	}
	if n.resources > 0 {
		m.Proxies += proxies
	}
}

// patchCount is what a patch matches in a class.
type patchCount struct {
	resources int
	failed    map[string]int // resources, by why it fails in them; nil if it fails in none
}

// patchCounts are those of patches.
type patchCounts map[patchRef]patchCount

// add adds what became of a patch in a resource, or takes it back. What other patches than those of
// the class did is none of it any more.
func (counts patchCounts) add(m match, by int) {
	n, has := counts[m.patchRef]
	if !has {
		return
	}
	n.resources += by
	if m.failed != "" {
		if n.failed = maps.Clone(n.failed); n.failed == nil {
			n.failed = map[string]int{}
		}
		if n.failed[m.failed] += by; n.failed[m.failed] == 0 {
			delete(n.failed, m.failed)
		}
	}
	counts[m.patchRef] = n
}

// countedMatches is what the tally has of a class.
type countedMatches struct {
	patches *patchSet
	matches *resource.Set
	of      patchCounts // an entry for each patch that is for the class
}

// patchTally knows which patches match nothing in any class, and which fail.
type patchTally struct{ of map[patchRef]*talliedPatch }

// talliedPatch counts the classes that a patch is for, and those in which it matches something.
type talliedPatch struct {
	classes, matching int
	failing           map[string]int  // classes, by why it fails in them
	idle              *source.Tallied // that it matches nothing
	failure           *source.Tallied // that it fails
}

func newPatchTally() *patchTally { return &patchTally{of: map[patchRef]*talliedPatch{}} }

// fork returns a tally that changes for itself.
func (t *patchTally) fork() *patchTally {
	f := newPatchTally()
	for ref, was := range t.of {
		copied := *was
		copied.failing = maps.Clone(was.failing)
		f.of[ref] = &copied
	}
	return f
}

// update counts again what the patches of a class match, if that changed. It costs what changed,
// and with other patches than before the number of patches.
func (t *patchTally) update(c *class, problems *source.Tally) {
	counted := &c.counted
	if counted.patches == c.patches && counted.matches == c.matches {
		return
	}
	was, is := counted.of, patchCounts{}
	if counted.patches == c.patches {
		own(c, borrowedCounts, (*map[patchRef]patchCount)(&counted.of))
		was = counted.of.follow(counted.matches, c.matches)
		for ref := range was {
			is[ref] = counted.of[ref]
		}
	} else {
		for _, p := range c.patches.all() {
			if isFor(p, &c.scope) {
				is[refOf(p)] = was[refOf(p)]
			}
		}
		is.follow(counted.matches, c.matches)
		counted.of = is
		c.borrows &^= borrowedCounts
	}
	t.replace(was, is, problems)
	counted.patches, counted.matches = c.patches, c.matches
}

// forget takes a class out.
func (t *patchTally) forget(c *class, problems *source.Tally) {
	t.replace(c.counted.of, nil, problems)
	c.counted = countedMatches{}
}

// follow takes the counts from one state of what patches match to another. It returns what they
// were of the patches whose counts it changed.
func (counts patchCounts) follow(from, to *resource.Set) (was patchCounts) {
	if from == nil {
		from = resource.Empty()
	}
	was = patchCounts{}
	add := func(m match, by int) {
		n, has := counts[m.patchRef]
		if _, noted := was[m.patchRef]; has && !noted {
			was[m.patchRef] = n
		}
		counts.add(m, by)
	}
	resource.Diff(from, to, func(old, new *resource.Resource) {
		for _, m := range decodeMatches(old) {
			add(m, -1)
		}
		for _, m := range decodeMatches(new) {
			add(m, 1)
		}
	})
	return was
}

// isFor reports whether a patch is for a side of calls that a class has something for.
func isFor(p patch.Patch, s *scope.Scope) bool {
	return slices.ContainsFunc(contextsOf(s), func(c model.PatchContext) bool { return p.IsFor(c) })
}

func (t *patchTally) replace(was, is patchCounts, problems *source.Tally) {
	for ref, n := range is {
		of := t.of[ref]
		if of == nil {
			of = &talliedPatch{failing: map[string]int{}}
			t.of[ref] = of
		}
		of.count(n, 1)
	}
	for ref, n := range was {
		t.of[ref].count(n, -1)
	}
	for _, changed := range []patchCounts{was, is} {
		for ref := range changed {
			if of := t.of[ref]; of != nil && of.tell(ref, problems) { // at the second call nothing is new
				delete(t.of, ref)
			}
		}
	}
}

func (p *talliedPatch) count(n patchCount, by int) {
	p.classes += by
	if n.resources > 0 {
		p.matching += by
	}
	for why := range n.failed {
		if p.failing[why] += by; p.failing[why] == 0 {
			delete(p.failing, why)
		}
	}
}

// tell brings the problems of a patch up to date, and reports whether no class has it any more.
func (p *talliedPatch) tell(ref patchRef, problems *source.Tally) (gone bool) {
	idle := p.classes > 0 && p.matching == 0 && ref.owner.Kind == kinds.EnvoyFilter
	switch {
	case idle && p.idle == nil:
		p.idle = problems.Add(idlePatch(ref))
	case !idle && p.idle != nil:
		problems.Release(p.idle)
		p.idle = nil
	}
	p.tellFailure(ref, problems)
	return p.classes == 0
}

// tellFailure tells why a patch fails: of several reasons the first by text.
func (p *talliedPatch) tellFailure(ref patchRef, problems *source.Tally) {
	if len(p.failing) == 0 && p.failure == nil {
		return
	}
	why := slices.Sorted(maps.Keys(p.failing))
	if p.failure != nil && len(why) > 0 && p.failure.Message == failedPatch(ref, why[0]).Message {
		return
	}
	if p.failure != nil {
		problems.Release(p.failure)
		p.failure = nil
	}
	if len(why) > 0 {
		p.failure = problems.Add(failedPatch(ref, why[0]))
	}
}

func pathOfPatch(ref patchRef) string {
	if ref.owner.Kind != kinds.EnvoyFilter {
		return "spec"
	}
	return fmt.Sprintf("spec.configPatches[%d]", ref.index)
}

func idlePatch(ref patchRef) source.Problem {
	return source.Problem{
		Severity: source.Warning, Object: ref.owner, Path: pathOfPatch(ref) + ".match",
		Message: "matches nothing of the proxies that it is for and that are connected to this control plane",
		Want:    "a match of what proxies have: lateen proxy-config shows it",
	}
}

func failedPatch(ref patchRef, why string) source.Problem {
	return source.Problem{
		Severity: source.Error, Object: ref.owner, Path: pathOfPatch(ref) + ".patch",
		Message: "cannot be applied to what it matches, and is left out there: " + why,
		Want:    "a patch that fits what it matches",
	}
}
