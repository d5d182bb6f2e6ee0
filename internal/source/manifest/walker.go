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

// walker walks once over the nodes of one document. It collects problems and writes the document as
// JSON, with fields sorted by name, so that equal objects have equal bytes. After a problem the
// JSON is not used.
type walker struct {
	file     string
	object   source.Key
	out      []byte
	problems []source.Problem // at most maxProblems
	omitted  int              // how many more there are

	path []string // from the top of the object, as shown: ".spec", "[0]"
	// frames are the enclosing objects, for hints about fields at the wrong level.
	frames []frame
	masked int // more than 0 below a value that may be a secret
}

type frame struct {
	object *objectSchema
	depth  int // length of the path
}

// entry is one pair of a map. Its value is resolved.
type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
}

// enterField extends the path by a field or by a key of a map.
func (w *walker) enterField(name string) {
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

// enterItem extends the path by a position in a list.
func (w *walker) enterItem(i int) { w.path = append(w.path, "["+strconv.Itoa(i)+"]") }

func (w *walker) leave() { w.path = w.path[:len(w.path)-1] }

// enterObject records that the walk is inside an object. The caller calls leave on the way out.
func (w *walker) enterObject(o *objectSchema, entries []entry) (leave func()) {
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

// mask hides values that may be secret until unmask is called.
func (w *walker) mask(secret bool) (unmask func()) {
	if !secret {
		return func() {}
	}
	w.masked++
	return func() { w.masked-- }
}

// secretName matches names of fields whose values are not repeated in messages.
var secretName = regexp.MustCompile(`(?i)passw|secret|token|credential|private|api[_-]?key|authorization`)

// mapping returns the entries of a map, sorted by name. It reports a node that is no map, and
// duplicate keys.
func (w *walker) mapping(n *yaml.Node, want string) (entries []entry, ok bool) {
	if n.Kind != yaml.MappingNode {
		w.wrongType(n, want)
		return nil, false
	}
	entries, merges := w.ownEntries(n)
	slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].name == entries[i-1].name {
			w.enterField(entries[i].name)
			w.report(entries[i].key, "", fmt.Sprintf(
				"given twice; it stands on line %d already", entries[i-1].key.Line,
			), "each field once")
			w.leave()
		}
	}
	if len(merges) > 0 {
		entries = w.merge(entries, merges)
	}
	return slices.CompactFunc(entries, func(a, b entry) bool { return a.name == b.name }), true
}

// ownEntries returns the pairs of a map in their order, and separately the values of merge keys
// ("<<").
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

// merge adds the entries of the merged maps whose names are new. The first of several wins.
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

// report records a problem at the current path.
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

// wrongType reports a node of the wrong type.
func (w *walker) wrongType(n *yaml.Node, want string) {
	w.report(n, w.show(n), "wrong type: this is "+describe(n), want)
}

// unknownField reports a field that an object does not have, with the field that was probably
// meant.
func (w *walker) unknownField(o *objectSchema, e entry) {
	if len(w.problems) == maxProblems { // looking for what was meant takes time
		w.omitted++
		return
	}
	message, want := "unknown field", nearest(e.name, o.names)
	if want == "" {
		want = w.suggestPath(o, e.name)
	}
	if want == "" {
		want = "one of " + strings.Join(o.names, ", ")
		if len(o.names) == 0 {
			want = "no field at all"
		}
	}
	w.enterField(e.name)
	unmask := w.mask(secretName.MatchString(e.name))
	w.report(e.key, w.show(e.value), message, want)
	unmask()
	w.leave()
}

// suggestPath finds where a field that is unknown here belongs: in an enclosing object if it was
// indented too far, or in an object below if a level was left out.
func (w *walker) suggestPath(o *objectSchema, name string) string {
	for _, f := range slices.Backward(w.frames[:len(w.frames)-1]) {
		if _, ok := f.object.fields[name]; ok {
			return fmt.Sprintf(
				"it in %s, further left", cmp.Or(strings.Join(w.path[:f.depth], ""), "the object itself"),
			)
		}
	}
	const levels = 3
	if place := pathBelow(o, name, levels); place != "" {
		return fmt.Sprintf("it in %s.%s", strings.Join(w.path, ""), place)
	}
	return ""
}

// pathBelow finds a field in the objects below another, the nearest first, down to a number of
// levels.
func pathBelow(o *objectSchema, name string, levels int) string {
	for depth := 1; depth <= levels; depth++ {
		for _, below := range o.names {
			if place, ok := pathAt(o.fields[below].schema, name, depth); ok {
				return below + place
			}
		}
	}
	return ""
}

// pathAt finds a field exactly depth levels below a schema's own fields.
func pathAt(s schema, name string, depth int) (place string, found bool) {
	if l, ok := s.(*listSchema); ok {
		place, found = pathAt(l.element, name, depth)
		return "[]" + place, found
	}
	o, ok := s.(*objectSchema)
	if !ok {
		return "", false
	}
	if depth == 1 {
		_, found = o.fields[name]
		return "", found
	}
	for _, below := range o.names {
		if place, found = pathAt(o.fields[below].schema, name, depth-1); found {
			return "." + below + place, true
		}
	}
	return "", false
}

// show returns a value as the user wrote it, shortened, and hidden if it may be a secret.
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

// describe says what a node is.
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

func (w *walker) openBracket(bracket byte)  { w.out = append(w.out, bracket) }
func (w *walker) closeBracket(bracket byte) { w.out = append(w.out, bracket) }
func (w *walker) raw(s string)              { w.out = append(w.out, s...) }

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

// Origin returns a location: "reviews.yaml:12". Lines begin with 1; 0 means the whole file.
func Origin(file string, line int) string {
	if line <= 0 {
		return file
	}
	return file + ":" + strconv.Itoa(line)
}
