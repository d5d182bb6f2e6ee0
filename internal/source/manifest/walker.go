package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/lateen-mesh/lateen/internal/source"
)

// walker goes once over the nodes of one document: it collects what is wrong and writes the document as JSON, with
// the fields in order of their names, so that equal objects have equal bytes. Once it has reported a problem,
// the JSON is of no use.
type walker struct {
	file     string
	object   source.Key
	out      []byte
	problems []source.Problem // the first maxProblems
	omitted  int              // how many there are besides

	path []string // the steps from the top of the object, as shown: ".spec", "[0]"
	// frames are the objects that enclose the place, for hints on fields that stand one level too deep.
	frames []frame
	masked int // more than 0 below a value that may be a secret
}

type frame struct {
	object *object
	depth  int // length of the path
}

// entry is one pair of a map; its value is resolved.
type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
}

// step extends the path by a field or by a key of a map.
func (w *walker) step(name string) {
	switch {
	case !plainName.MatchString(name):
		w.path = append(w.path, "["+strconv.Quote(name)+"]")
	case len(w.path) == 0:
		w.path = append(w.path, name)
	default:
		w.path = append(w.path, "."+name)
	}
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// stepInto extends the path by a position in a list.
func (w *walker) stepInto(i int) { w.path = append(w.path, "["+strconv.Itoa(i)+"]") }

func (w *walker) back() { w.path = w.path[:len(w.path)-1] }

// enter notes that the walk is inside of an object. The caller calls what it returns on the way out.
func (w *walker) enter(o *object, entries []entry) (leave func()) {
	w.frames = append(w.frames, frame{o, len(w.path)})
	_, pair := o.fields["value"] // an environment variable or a header: its name tells what the value is
	unmask := w.mask(pair && slices.ContainsFunc(entries, func(e entry) bool {
		return e.name == "name" && e.value.Kind == yaml.ScalarNode && secretName.MatchString(e.value.Value)
	}))
	return func() {
		w.frames = w.frames[:len(w.frames)-1]
		unmask()
	}
}

// mask hides values, if they may be secret, until what it returns is called.
func (w *walker) mask(secret bool) (unmask func()) {
	if !secret {
		return func() {}
	}
	w.masked++
	return func() { w.masked-- }
}

// secretName matches the names of things whose values are not repeated in messages.
var secretName = regexp.MustCompile(`(?i)passw|secret|token|credential|private|api[_-]?key|authorization`)

// mapping gives the entries of a map, sorted by name; it reports a node that is no map, and keys given twice.
func (w *walker) mapping(n *yaml.Node, want string) (entries []entry, ok bool) {
	if n.Kind != yaml.MappingNode {
		w.wrongType(n, want)
		return nil, false
	}
	entries, merges := w.ownEntries(n)
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			w.step(entries[i].name)
			w.report(entries[i].key, "", fmt.Sprintf("given twice; it stands on line %d already", entries[i-1].key.Line), "each field once")
			w.back()
		}
	}
	if len(merges) > 0 {
		entries = w.merge(entries, merges)
	}
	return slices.CompactFunc(entries, func(a, b entry) bool { return a.name == b.name }), true
}

// ownEntries gives the pairs of a map in their order, and apart from them what is to be merged in ("<<").
func (w *walker) ownEntries(n *yaml.Node) (entries []entry, merges []*yaml.Node) {
	entries = make([]entry, 0, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := resolve(n.Content[i]), resolve(n.Content[i+1])
		switch {
		case key.Kind != yaml.ScalarNode:
			w.report(key, "", "a key that is not a name", "a string")
		case key.Tag == "!!merge":
			merges = append(merges, value)
		default:
			entries = append(entries, entry{key.Value, key, value})
		}
	}
	return entries, merges
}

// merge adds the entries of the maps to merge that are not given already; the first of several prevails.
func (w *walker) merge(entries []entry, merges []*yaml.Node) []entry {
	for _, m := range merges {
		sources := []*yaml.Node{m}
		if m.Kind == yaml.SequenceNode {
			sources = m.Content
		}
		for _, s := range sources {
			inherited, ok := w.mapping(resolve(s), `a map to merge by "<<"`)
			if ok {
				entries = append(entries, inherited...)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return entries
}

// report notes a problem at the current path.
func (w *walker) report(at *yaml.Node, value, message, want string) {
	if len(w.problems) == maxProblems {
		w.omitted++
		return
	}
	w.problems = append(w.problems, source.Problem{
		Severity: source.Error,
		Object:   w.object,
		Origin:   Origin(w.file, at.Line),
		Path:     strings.TrimPrefix(strings.Join(w.path, ""), "."),
		Value:    value,
		Message:  message,
		Want:     want,
	})
}

// wrongType reports a node where something else belongs.
func (w *walker) wrongType(n *yaml.Node, want string) {
	w.report(n, w.show(n), "wrong type: this is "+describe(n), want)
}

// unknownField reports a field that an object does not have, with the one that was probably meant.
func (w *walker) unknownField(o *object, e entry) {
	if len(w.problems) == maxProblems { // to look for what was meant takes time
		w.omitted++
		return
	}
	message, want := "unknown field", nearest(e.name, o.names)
	if want == "" {
		want = w.placeOf(o, e.name)
	}
	if want == "" {
		want = "one of " + strings.Join(o.names, ", ")
		if len(o.names) == 0 {
			want = "no field at all"
		}
	}
	w.step(e.name)
	unmask := w.mask(secretName.MatchString(e.name))
	w.report(e.key, w.show(e.value), message, want)
	unmask()
	w.back()
}

// placeOf finds where a field that is unknown here belongs: in an enclosing object, when it was indented too far,
// or in an object right below, when a level was left out.
func (w *walker) placeOf(o *object, name string) string {
	for _, f := range slices.Backward(w.frames[:len(w.frames)-1]) {
		if _, ok := f.object.fields[name]; ok {
			return fmt.Sprintf("it in %s, further left", cmp.Or(strings.Join(w.path[:f.depth], ""), "the object itself"))
		}
	}
	const levels = 3
	if place := placeBelow(o, name, levels); place != "" {
		return fmt.Sprintf("it in %s.%s", strings.Join(w.path, ""), place)
	}
	return ""
}

// placeBelow finds a field in the objects below another, the nearest first, down to a number of levels.
func placeBelow(o *object, name string, levels int) string {
	for depth := 1; depth <= levels; depth++ {
		for _, below := range o.names {
			if place, ok := placeAt(o.fields[below].shape, name, depth); ok {
				return below + place
			}
		}
	}
	return ""
}

// placeAt finds a field exactly depth levels below a shape's own.
func placeAt(s shape, name string, depth int) (place string, found bool) {
	if l, ok := s.(*list); ok {
		place, found = placeAt(l.element, name, depth)
		return "[]" + place, found
	}
	o, ok := s.(*object)
	if !ok {
		return "", false
	}
	if depth == 1 {
		_, found = o.fields[name]
		return "", found
	}
	for _, below := range o.names {
		if place, found = placeAt(o.fields[below].shape, name, depth-1); found {
			return "." + below + place, true
		}
	}
	return "", false
}

// show is a value as a user wrote it, cut short, and hidden where it may be a secret.
func (w *walker) show(n *yaml.Node) string {
	const longest = 80
	if w.masked > 0 && n.Kind == yaml.ScalarNode {
		return "(hidden)"
	}
	switch {
	case n.Kind == yaml.ScalarNode:
		line, _, more := strings.Cut(n.Value, "\n")
		if runes := []rune(line); len(runes) > longest {
			line, more = string(runes[:longest]), true
		}
		if more {
			line += "…"
		}
		return line
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		return "[]"
	case n.Kind == yaml.SequenceNode:
		return "[…]"
	case len(n.Content) == 0:
		return "{}"
	default:
		return "{…}"
	}
}

func (w *walker) showQuoted(n *yaml.Node) string {
	shown := w.show(n)
	if shown == "(hidden)" {
		return shown
	}
	return strconv.Quote(shown)
}

// describe names what a node is.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	}
	switch tagOf(n) {
	case tagNull:
		return "nothing"
	case tagBool:
		return "a boolean"
	case tagInt, tagFloat:
		return "a number"
	case tagString:
		return "a string"
	}
	return "a value with the tag " + n.ShortTag()
}

func comparePositions(a, b *yaml.Node) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

// The JSON writer.

func (w *walker) open(bracket byte) { w.out = append(w.out, bracket) }
func (w *walker) shut(bracket byte) { w.out = append(w.out, bracket) }
func (w *walker) raw(s string)      { w.out = append(w.out, s...) }

// separate writes the comma between two entries.
func (w *walker) separate() {
	if last := w.out[len(w.out)-1]; last != '{' && last != '[' {
		w.out = append(w.out, ',')
	}
}

func (w *walker) key(name string) {
	w.separate()
	w.text(name)
	w.out = append(w.out, ':')
}

func (w *walker) text(s string) {
	quoted, err := json.Marshal(s)
	if err != nil { // a string always has a JSON form
		quoted = []byte(`""`)
	}
	w.out = append(w.out, quoted...)
}

// Origin is where something stands: "reviews.yaml:12". Lines begin with 1; 0 stands for the whole file.
func Origin(file string, line int) string {
	if line <= 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}
