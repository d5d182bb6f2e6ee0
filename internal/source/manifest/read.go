package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// MaxFileSize is the size in bytes of the largest file that is read.
const MaxFileSize = 16 << 20

// DefaultNamespace is the namespace of an object of a namespaced kind that names none.
const DefaultNamespace = "default"

// Document is one object of a manifest.
type Document struct {
	Key    source.Key
	Object metav1.Object // of the type that source.Change documents
	// Origin is the file and the line where the object begins: "reviews.yaml:12".
	Origin string
	Line   int

	// JSON is the object as written, with sorted fields: equal objects have equal bytes. It is nil
	// for a refused document: it has errors, and only its key could be read.
	JSON []byte
	// Closed is set for a refused document of a kind that protects (kinds.Descriptor.Protects). It
	// is the JSON of an object of the same name that refuses calls to the workloads which the
	// document selects, or to all of the namespace if the selector cannot be read either.
	Closed []byte
}

// Change returns the document as a change that was seen at a time.
func (d Document) Change(observedAt time.Time) source.Change {
	return source.Change{Key: d.Key, Object: d.Object, Origin: d.Origin, ObservedAt: observedAt}
}

// Read reads the manifests of one file: YAML with any number of documents, or JSON if the name ends
// in ".json". The name is used for origins only. It returns the objects without errors, in their
// order, and the problems of the others, in order of lines. A document with an error does not
// affect the others. A syntax error does, because it hides where documents begin and end.
func Read(name string, data []byte) ([]Document, []source.Problem) {
	r := ReadFile(name, data)
	if r.Broken {
		return nil, r.Problems
	}
	first := map[source.Key]Document{}
	var documents []Document
	for _, d := range r.Documents {
		if d.Refused() {
			continue
		}
		if winner, taken := first[d.Key]; taken {
			r.Problems = append(r.Problems, Duplicate(d, winner))
			continue
		}
		first[d.Key] = d
		documents = append(documents, d)
	}
	SortProblems(r.Problems)
	return documents, r.Problems
}

// Refused reports whether the document has errors, so that only its key could be read.
func (d Document) Refused() bool { return d.JSON == nil }

// Decode sets the typed object from its JSON.
func (d *Document) Decode() error {
	r := kindCatalog().resources[d.Key.Kind]
	if r == nil {
		return fmt.Errorf("kind %s is not used", d.Key.Kind)
	}
	object := r.New()
	if err := json.Unmarshal(d.JSON, object); err != nil {
		return err
	}
	object.SetNamespace(d.Key.Namespace)
	d.Object = object
	return nil
}

// Duplicate returns the problem of a document whose object another document defines with
// precedence.
func Duplicate(loser, winner Document) source.Problem {
	return source.Problem{
		Severity: source.Error,
		Object:   loser.Key,
		Origin:   loser.Origin,
		Path:     "metadata.name",
		Value:    loser.Key.Name,
		Message:  "the object is defined twice; the definition at " + winner.Origin + " is in force, this one is not",
		Want:     "one definition of each object",
	}
}

// Reading is the outcome of reading one file.
type Reading struct {
	// Documents are those whose key could be read, refused ones included.
	Documents []Document
	Problems  []source.Problem
	// Unidentified counts the refused documents whose key could not be read. Each might be any
	// object.
	Unidentified int
	// Broken is set if the file could not be read as a whole. There are no documents then.
	Broken bool
	// LastPath are the fields that lead to the value that was written last, from the top of the
	// last document. Of lists it is the last item.
	LastPath []string
	// Unterminated is set if the last line of the file does not end, and a value may go on there.
	Unterminated bool
	// Unfinished says why the file's end looks cut off, for users; empty if it does not.
	Unfinished string

	reported [2]int // by severity
	omitted  int    // how many more there are
}

// Failed returns the reading of a file that cannot be read as a whole.
func Failed(p source.Problem) Reading {
	p.Severity = source.Error
	return Reading{Problems: []source.Problem{p}, Broken: true}
}

// ReadFile reads the documents of a file independently of each other, including what can be read of
// refused ones; see Read.
func ReadFile(name string, data []byte) Reading {
	if len(data) > MaxFileSize {
		return Failed(source.Problem{
			Origin:  name,
			Message: fmt.Sprintf("the file has %d bytes", len(data)),
			Want:    fmt.Sprintf("at most %d (%d MiB) in one file", MaxFileSize, MaxFileSize>>20),
		})
	}
	nodes, err := parse(name, data)
	if err != nil {
		return Failed(
			source.Problem{Origin: Origin(name, err.line), Message: "syntax error: " + err.reason, Want: err.want},
		)
	}
	r := Reading{Unfinished: unfinished(nodes), LastPath: lastPath(nodes), Unterminated: isUnterminated(data)}
	for _, n := range nodes {
		r.add(name, n)
	}
	SortProblems(r.Problems)
	if r.omitted > 0 {
		severity := source.Warning
		if r.reported[source.Error] == maxProblems {
			severity = source.Error
		}
		r.Problems = append(r.Problems, source.Problem{
			Severity: severity,
			Origin:   name,
			Message:  fmt.Sprintf("and %d more problems in this file", r.omitted),
		})
	}
	return r
}

// maxProblems is how many errors, and how many warnings, of one file are reported. Nobody reads
// more.
const maxProblems = 200

// report adds problems up to maxProblems of each severity.
func (r *Reading) report(problems ...source.Problem) {
	for _, p := range problems {
		if r.reported[p.Severity] == maxProblems {
			r.omitted++
			continue
		}
		r.reported[p.Severity]++
		r.Problems = append(r.Problems, p)
	}
}

// add reads one document, or the items of a List.
func (r *Reading) add(file string, n *yaml.Node) {
	if isNull(n) { // nothing between two "---"
		return
	}
	if !hasSafeAliases(n) {
		r.refuse(source.Problem{
			Origin:  Origin(file, n.Line),
			Message: "the document is too large once its aliases are replaced by what they stand for",
			Want:    "fewer aliases (*name), and none that contains itself",
		})
		return
	}
	if items, ok := listItems(resolve(n)); ok {
		for _, item := range items {
			r.addObject(file, resolve(item))
		}
		return
	}
	r.addObject(file, resolve(n))
}

func (r *Reading) refuse(p source.Problem) {
	p.Severity = source.Error
	r.report(p)
	r.Unidentified++
}

// addObject reads one object.
func (r *Reading) addObject(file string, n *yaml.Node) {
	w := &walker{file: file}
	id := identify(w, n)
	switch {
	case id.beside:
		return
	case id.unused != "":
		kind := kinds.Kind(id.kind)
		r.report(source.Problem{
			Severity: source.Warning,
			Object:   source.Key{Kind: kind, Namespace: id.namespace, Name: id.name},
			Origin:   Origin(file, n.Line),
			Message:  id.unused,
		})
		return
	case id.resource == nil || len(w.problems) > 0:
		r.report(w.problems...)
		if d, ok := policyOfNoVersion(file, n); ok {
			r.Documents = append(r.Documents, d)
			return
		}
		r.Unidentified++
		return
	}
	d := Document{Key: id.key(), Origin: Origin(file, n.Line), Line: n.Line}
	w.object = d.Key
	w.out = make([]byte, 0, 1024)
	w.mask(d.Key.Kind == kinds.Secret)
	id.resource.schema.check(w, n)
	checkLabels(w, n)
	if len(w.problems) == 0 {
		d.JSON = w.out
		if err := d.Decode(); err != nil { // what the schemas do not cover
			d.JSON = nil
			w.report(n, "", "cannot be read: "+err.Error(), "")
		}
	}
	if d.Refused() && id.resource.Protects {
		d.Closed = closedForm(n, id)
	}
	r.report(w.problems...)
	r.omitted += w.omitted
	r.Documents = append(r.Documents, d)
}

// SortProblems sorts problems by their lines.
func SortProblems(problems []source.Problem) {
	slices.SortStableFunc(problems, func(a, b source.Problem) int {
		return cmp.Or(
			cmp.Compare(
				lineOf(a.Origin), lineOf(b.Origin),
			), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
}

func lineOf(origin string) int {
	line, err := strconv.Atoi(origin[strings.LastIndexByte(origin, ':')+1:])
	if err != nil {
		return math.MaxInt // what concerns the whole file comes last
	}
	return line
}
