package dir

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// keepLastValid returns the documents that are in force after a reading, given those before. It
// replaces documents with errors by their last valid reading (the package comment has the rules),
// and adds a note for each. It is idempotent: a restart, which reads each file again over what was
// recorded of it, changes nothing.
func keepLastValid(r manifest.Reading, file string, before []manifest.Document) (
	documents []manifest.Document, notes []source.Problem,
) {
	if r.Broken {
		if len(before) > 0 {
			notes = append(notes, source.Problem{
				Severity: source.Warning,
				Origin:   file,
				Message:  fmt.Sprintf("the last valid reading of this file stays in force (objects: %d)", len(before)),
			})
		}
		return before, notes
	}
	held := map[source.Key]manifest.Document{}
	for _, d := range slices.Backward(before) { // of several, the first
		held[d.Key] = d
	}
	named := map[source.Key]bool{}
	for _, d := range r.Documents {
		named[d.Key] = true
		if !d.Refused() {
			delete(held, d.Key) // the file has a valid definition: another one, refused, needs no substitute
		}
	}
	for _, d := range r.Documents {
		if d.Refused() {
			last, ok := held[d.Key]
			if !ok {
				continue
			}
			delete(held, d.Key)
			d.Object, d.JSON = last.Object, last.JSON
			notes = append(notes, note(d, "the last valid reading of this object stays in force"))
		}
		documents = append(documents, d)
	}
	for _, d := range before {
		if r.Unidentified > 0 && !named[d.Key] {
			documents = append(documents, d)
			notes = append(notes, note(d, "the file does not name this object any more, but has a document that "+
				"cannot be "+
				"told apart; until it can, the last valid reading of this object stays in force"))
		}
	}
	slices.SortStableFunc(documents, func(a, b manifest.Document) int { return a.Line - b.Line })
	return documents, notes
}

func note(d manifest.Document, message string) source.Problem {
	return source.Problem{Severity: source.Warning, Object: d.Key, Origin: d.Origin, Message: message}
}
