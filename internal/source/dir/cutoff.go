package dir

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// cutOff returns why a file that lacks objects which it defined before looks like a part of
// itself, or "" if it does not: then somebody has removed them. A file that was cut between two
// documents cannot be told from one that was edited.
func cutOff(r manifest.Reading, before []manifest.Document) string {
	lost := missing(r, before)
	switch {
	case len(lost) == 0 || r.Unidentified > 0: // keepRefused keeps what a document without a name may be
		return ""
	case r.Unfinished != "":
		return r.Unfinished
	case len(r.Documents) == 0:
		return ""
	}
	last := r.Documents[len(r.Documents)-1]
	if last.Refused() {
		return "its last document cannot be read"
	}
	for _, d := range before {
		same := d.Key == last.Key
		if (same || lost[d.Key]) && !bytes.Equal(d.JSON, last.JSON) && isPartOf(r, last.JSON, d.JSON) {
			return "its last document is the beginning of " + d.Key.String()
		}
	}
	return ""
}

// missing returns the objects that a file defined before and does not define any more.
func missing(r manifest.Reading, before []manifest.Document) map[source.Key]bool {
	lost := map[source.Key]bool{}
	for _, d := range before {
		lost[d.Key] = true
	}
	for _, d := range r.Documents {
		delete(lost, d.Key)
	}
	return lost
}

// keepCutOff returns the documents of a file that was cut off: the complete ones as they are now,
// and all others as they were before.
func keepCutOff(r manifest.Reading, file string, before []manifest.Document, why string) (
	documents []manifest.Document, notes []source.Problem,
) {
	if n := len(r.Documents); n > 0 && r.Unfinished == "" && !r.Documents[n-1].Refused() {
		r.Documents = r.Documents[:n-1] // it is incomplete, though it can be read
	}
	documents, notes = keepRefused(r, before)
	lost := missing(r, before)
	var names []string
	for _, d := range before {
		if lost[d.Key] {
			documents = append(documents, d)
			names = append(names, d.Key.String())
		}
	}
	sortByLine(documents)
	return documents, append(notes, source.Problem{
		Severity: source.Error,
		Origin:   file,
		Message: fmt.Sprintf(
			"the file looks cut off or half-written: %s; the last valid readings of what is missing stay in force: %s",
			why, firstOf(names),
		),
		Want: "the whole file; to delete all of its objects, remove the file",
	})
}

// firstOf names the first objects and counts the others.
func firstOf(names []string) string {
	const most = 3
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// isPartOf reports whether the last document of a reading may be the beginning of another one. If
// the last line ends, it is a part only if something is missing: else a value was edited.
func isPartOf(r manifest.Reading, part, whole []byte) bool {
	a, okA := decodeJSON(part)
	b, okB := decodeJSON(whole)
	return okA && okB && isBeginning(a, b, r.LastPath) && (r.Unterminated || isMissing(a, b))
}

func decodeJSON(text []byte) (value any, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // the number 8080 may be cut to 80
	return value, decoder.Decode(&value) == nil
}

// isBeginning reports whether a value may be what is left of another one that was cut. Below the
// fields that were written last, fields and items may be missing, and a string or number may be
// shorter. All else is equal.
func isBeginning(part, whole any, last []string) bool {
	switch part := part.(type) {
	case nil:
		return true
	case map[string]any:
		whole, ok := whole.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range part {
			old, ok := whole[name]
			switch {
			case !ok:
				return false
			case len(last) > 0 && name == last[0]:
				ok = isBeginning(value, old, last[1:])
			default:
				ok = reflect.DeepEqual(value, old)
			}
			if !ok {
				return false
			}
		}
		return true
	case []any:
		whole, ok := whole.([]any)
		if !ok || len(part) > len(whole) || len(part) == 0 {
			return ok && len(part) == 0
		}
		end := len(part) - 1
		return reflect.DeepEqual(part[:end], whole[:end]) && isBeginning(part[end], whole[end], last)
	case string:
		whole, ok := whole.(string)
		return ok && strings.HasPrefix(whole, part)
	case json.Number:
		whole, ok := whole.(json.Number)
		return ok && strings.HasPrefix(whole.String(), part.String())
	}
	return part == whole
}

// isMissing reports whether a beginning lacks lines: fields, items, or lines of a text.
func isMissing(part, whole any) bool {
	switch whole := whole.(type) {
	case map[string]any:
		part, ok := part.(map[string]any)
		if !ok || len(part) < len(whole) {
			return true
		}
		for name, value := range part {
			if isMissing(value, whole[name]) {
				return true
			}
		}
	case []any:
		part, ok := part.([]any)
		return !ok || len(part) < len(whole) || len(part) > 0 && isMissing(part[len(part)-1], whole[len(part)-1])
	case string:
		return part == nil || part != whole && strings.Contains(whole, "\n")
	}
	return part == nil && whole != nil
}
