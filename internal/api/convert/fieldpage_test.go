package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestEveryFieldHasOneRow: a field is read, or read when a proxy starts, or stands in the table of
// those that are not in force, and in one of these alone.
func TestEveryFieldHasOneRow(t *testing.T) {
	rows := map[string]int{}
	for _, a := range absences() {
		for word := range strings.FieldsSeq(a.fields) {
			rows[string(a.message)+"."+word]++
		}
	}
	for _, m := range apiMessages() {
		used, known := usedFields(m.FullName())
		if !known {
			continue // below a field that is not in force, or refused as a whole
		}
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			name := string(field.FullName())
			n := rows[name]
			delete(rows, name)
			if hasWord(used, string(field.Name())) {
				n++
			}
			if isOfStart(field) {
				n++
			}
			require.Equal(t, 1, n, "%s: rows in usedFields, isOfStart and absences", name)
		}
	}
	require.Empty(t, rows, "the API has no such fields: mend absences")
}

// unreadSpecs are those of kinds that are not read.
func unreadSpecs() map[kinds.Kind]proto.Message {
	return map[kinds.Kind]proto.Message{
		"EnvoyFilter":  &networking.EnvoyFilter{},
		"MeshNetworks": &mesh.MeshNetworks{},
	}
}

// apiMessages are the messages of all kinds that are read, each once, in the order of the kinds.
func apiMessages() []protoreflect.MessageDescriptor {
	var all []protoreflect.MessageDescriptor
	seen := map[protoreflect.FullName]bool{}
	for _, m := range specs() {
		all = append(all, messagesBelow(m.ProtoReflect().Descriptor(), seen)...)
	}
	return all
}

// messagesBelow are a message and those of its fields that were not seen before.
func messagesBelow(
	m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool,
) []protoreflect.MessageDescriptor {
	if seen[m.FullName()] || m.ParentFile().Package() == "google.protobuf" {
		return nil
	}
	seen[m.FullName()] = true
	all := []protoreflect.MessageDescriptor{m}
	for i := range m.Fields().Len() {
		below := m.Fields().Get(i).Message()
		if m.Fields().Get(i).IsMap() {
			below = m.Fields().Get(i).MapValue().Message()
		}
		if below != nil {
			all = append(all, messagesBelow(below, seen)...)
		}
	}
	return all
}

// TestPageOfFieldsIsCurrent holds the reference page; with -update it is written anew.
func TestPageOfFieldsIsCurrent(t *testing.T) {
	p := fieldPage{absent: map[protoreflect.FullName]string{}, seen: map[protoreflect.FullName]bool{}}
	p.cases, _ = provenFields(t)
	for _, a := range absences() {
		for word := range strings.FieldsSeq(a.fields) {
			p.absent[a.message.Append(protoreflect.Name(word))] = a.why
		}
	}
	for _, spec := range specs() {
		p.kind(spec.ProtoReflect().Descriptor(), "")
	}
	unread := unreadSpecs()
	for _, k := range sortedKeys(unread) {
		p.kind(unread[k].ProtoReflect().Descriptor(), "the kind is not read")
	}
	head := fmt.Sprintf(`# Fields of Istio's API

Each field of the messages of istio.io/api, and what Lateen does with it. This page is made of the
tables by which the control plane reads objects and reports fields that have no effect;
[the API in words](istio-api.md) says how those in force work.

* **in force**: a change of it changes what proxies get, or is an error that says why not. The case
  is the file of `+"`internal/api/convert/testdata`"+` in which a test proves that; without a name it
  is a mesh configuration in the test itself.
* **at the start**: the injection or the agent reads it when a proxy starts.

| of %d fields | |
|---|---:|
| in force | %d |
| at the start of a proxy | %d |
| not in force | %d |
| of kinds that are not read | %d |
`, p.inForce+p.atStart+p.without+p.ofUnread, p.inForce, p.atStart, p.without, p.ofUnread)
	golden.File(t, "../../../docs/reference/fields.md", head+p.text.String())
}

// fieldPage is the page while it is written.
type fieldPage struct {
	cases, absent                       map[protoreflect.FullName]string
	seen                                map[protoreflect.FullName]bool
	text                                strings.Builder
	inForce, atStart, without, ofUnread int
}

// kind writes the messages of a kind that no kind before it has. unread says why none of them is in
// force, where the kind is not read.
func (p *fieldPage) kind(spec protoreflect.MessageDescriptor, unread string) {
	fmt.Fprintf(&p.text, "\n## %s\n", spec.Name())
	p.message(spec, unread)
}

// message writes a message and those below it. because says why it is not in force as a whole, if
// so.
func (p *fieldPage) message(m protoreflect.MessageDescriptor, because string) {
	if p.seen[m.FullName()] || m.ParentFile().Package() == "google.protobuf" {
		return
	}
	p.seen[m.FullName()] = true
	if m.Fields().Len() == 0 {
		return
	}
	_, name, _ := strings.Cut(strings.TrimPrefix(string(m.FullName()), "istio."), ".")
	_, name, _ = strings.Cut(name, ".")
	fmt.Fprintf(&p.text, "\n| %s | |\n|---|---|\n", name)
	type child struct {
		of      protoreflect.MessageDescriptor
		because string
	}
	var children []child
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		said, below := p.field(field, because)
		fmt.Fprintf(&p.text, "| `%s` | %s |\n", field.JSONName(), said)
		of := field.Message()
		if field.IsMap() {
			of = field.MapValue().Message()
		}
		if of != nil {
			children = append(children, child{of, below})
		}
	}
	for _, c := range children {
		p.message(c.of, c.because)
	}
}

// field says what becomes of a field, counts it, and says why what stands below is not in force.
func (p *fieldPage) field(field protoreflect.FieldDescriptor, because string) (said, below string) {
	switch used, _ := usedFields(field.ContainingMessage().FullName()); {
	case because == "the kind is not read":
		p.ofUnread++
		return because, because
	case because == "at the start" || isOfStart(field):
		p.atStart++
		return "at the start", "at the start"
	case because != "":
		p.without++
		return because, because
	case isRefusedAsAWhole(field.ContainingMessage().FullName()) || hasWord(used, string(field.Name())):
		p.inForce++
		if name := p.cases[field.FullName()]; name != "" {
			return "in force: " + name, ""
		}
		return "in force", ""
	}
	p.without++
	return p.absent[field.FullName()], p.absent[field.FullName()]
}
