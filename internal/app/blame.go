package app

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/fields"
	"github.com/lateen-mesh/lateen/internal/admin/history"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Of what made a resource what it is no more is told than people read: so many parts, and objects
// of each change.
const (
	maxParts        = 1000
	maxBlamedCauses = 20
)

// blamer follows the parts of a resource into the past.
type blamer struct {
	out *page.Blame
	// taken are the paths of parts that are blamed already, as the resource has them now.
	taken []string
	// moves say where members of lists went with each change, the newest first.
	moves []fields.Moves
}

// blameOf says which of the generations made each field what it is. Forms are the newest first.
func blameOf(t resource.Type, forms []history.Form) *page.Blame {
	b := blamer{out: &page.Blame{Changes: []page.BlamedChange{}}}
	is := admin.Render(t, forms[0].Resource)
	for i := 1; i < len(forms); i++ {
		by, was := blamedOn(&forms[i-1].By), forms[i]
		switch {
		case was.Forgotten, len(b.taken) >= maxParts:
			b.out.Since = by.At
			return b.out
		case was.Resource == nil: // it came, and with it all that has not changed since
			by.Rest = true
			b.out.Changes = append(b.out.Changes, by)
			return b.out
		}
		before := admin.Render(t, was.Resource)
		b.blame(by, before, is)
		is = before
	}
	return b.out
}

// blame notes the parts that a change made what they still are.
func (b *blamer) blame(by page.BlamedChange, before, after string) {
	differ, moved := fields.Follow(before, after)
	for _, f := range differ {
		path, is := b.now(f, moved)
		if is && !slices.ContainsFunc(b.taken, func(other string) bool { return overlap(other, path) }) {
			f.Path = path
			by.Parts = append(by.Parts, f)
		}
	}
	for _, f := range by.Parts {
		b.taken = append(b.taken, f.Path)
	}
	if len(moved) > 0 {
		b.moves = append(b.moves, moved)
	}
	if len(by.Parts) > 0 {
		slices.SortFunc(by.Parts, func(a, b page.FieldChange) int { return cmp.Compare(a.Path, b.Path) })
		b.out.Changes = append(b.out.Changes, by)
	}
}

// now returns where a field that changed is now, and false if its place is gone.
func (b *blamer) now(f page.FieldChange, moved fields.Moves) (path string, is bool) {
	path, is = f.Path, true
	if f.After == "" { // the path is of before
		path, is = moved.Path(path)
	}
	for i := len(b.moves) - 1; i >= 0 && is; i-- {
		path, is = b.moves[i].Path(path)
	}
	return path, is
}

// overlap tells whether one of two paths is the other, or leads to it.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, has := strings.CutPrefix(b, a)
	return has && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func blamedOn(g *page.Generation) page.BlamedChange {
	shown := g.Causes[:min(len(g.Causes), maxBlamedCauses)]
	return page.BlamedChange{
		Generation: g.Generation, At: g.At, Causes: shown, MoreCauses: g.MoreCauses + len(g.Causes) - len(shown),
	}
}
