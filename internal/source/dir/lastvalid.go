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
	if why := cutOff(r, before); why != "" {
		return keepCutOff(r, file, before, why)
	}
	return keepRefused(r, before)
}

// keepRefused replaces the refused documents of a complete file.
func keepRefused(r manifest.Reading, before []manifest.Document) (
	documents []manifest.Document, notes []source.Problem,
) {
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
		if d.Refused() && d.Closed != nil {
			d.JSON = d.Closed
			if err := d.Decode(); err != nil {
				panic(fmt.Sprintf("%s: the closed form cannot be read: %v", d.Key, err))
			}
			notes = append(notes, note(d, "calls to the workloads that it is for are refused until it can be read"))
		}
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
	sortByLine(documents)
	return documents, notes
}

func sortByLine(documents []manifest.Document) {
	slices.SortStableFunc(documents, func(a, b manifest.Document) int { return a.Line - b.Line })
}

func note(d manifest.Document, message string) source.Problem {
	return source.Problem{Severity: source.Warning, Object: d.Key, Origin: d.Origin, Message: message}
}
