package compile

import (
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/patch"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// What patches match in a class is a Set of its own: of each resource that they change it has one
// with the name of that and, as its body, what became of the patches there. So classes share it as
// they share their configuration, and a change of it costs the size of the change.

// patchRef names a patch.
type patchRef struct {
	owner source.Key
	index int
}

func refOf(p patch.Patch) patchRef { return patchRef{p.Owner, p.Index} }

// match is what became of a patch in one resource.
type match struct {
	patchRef
	// n is how many parts of the resource it matches; 1 for the resource itself.
	n int
	// failed says why it is left out there; empty if it is not.
	failed string
}

// matchesOf encodes what became of the patches of a message; nil if they match nothing of it.
func matchesOf(m made, by patch.Patches, out patch.Outcome) *resource.Resource {
	var list []match
	for i, n := range out.Matched {
		of := match{patchRef: refOf(by.At(i)), n: n}
		if err := out.Failed[i]; err != nil {
			of.n, of.failed = max(n, 1), err.Error() // it matches, or it would not fail
		}
		if of.n > 0 {
			list = append(list, of)
		}
	}
	return encodeMatches(nameOfMessage(m), list)
}

// matchOfAdded encodes that a patch adds a resource.
func matchOfAdded(of slotName, p patch.Patch) *resource.Resource {
	return encodeMatches(of.text(), []match{{patchRef: refOf(p), n: 1}})
}

// fieldsOfMatch is how many texts encode a match. Each ends with a zero byte, and has no other.
const fieldsOfMatch = 6

func encodeMatches(name string, list []match) *resource.Resource {
	if len(list) == 0 {
		return nil
	}
	var b strings.Builder
	for _, m := range list {
		for _, text := range [fieldsOfMatch]string{
			string(m.owner.Kind), m.owner.Namespace, m.owner.Name, strconv.Itoa(m.index), strconv.Itoa(m.n),
			strings.ReplaceAll(m.failed, "\x00", " "),
		} {
			b.WriteString(text)
			b.WriteByte(0)
		}
	}
	return resource.New(name, []byte(b.String()))
}

// decodeMatches is the inverse of encodeMatches; nil has none.
func decodeMatches(r *resource.Resource) (list []match) {
	if r == nil {
		return nil
	}
	texts := strings.Split(string(r.Body()), "\x00")
	for len(texts) >= fieldsOfMatch {
		m := match{patchRef: patchRef{owner: source.Key{
			Kind: kinds.Kind(texts[0]), Namespace: texts[1], Name: texts[2],
		}}, failed: texts[5]}
		m.index, _ = strconv.Atoi(texts[3])
		m.n, _ = strconv.Atoi(texts[4])
		list, texts = append(list, m), texts[fieldsOfMatch:]
	}
	return list
}

// text returns the name of the resource that stands for what patches match of another one.
func (s slotName) text() string { return s.typ.String() + " " + s.name }

// nameOfMessage returns the slotName of what is emitted, as text.
func nameOfMessage(m made) string {
	name := slotName{resource.Filter, m.name}
	switch m.message.(type) {
	case *clusterv3.Cluster:
		name.typ = resource.Cluster
	case *listenerv3.Listener:
		name.typ = resource.Listener
	case *routev3.RouteConfiguration:
		name.typ = resource.Route
	case *routev3.VirtualHost:
		name = slotName{resource.VirtualHost, resource.VirtualHostName(m.table, m.name)}
	}
	return name.text()
}

func (s slot) resourceName() slotName {
	if s.table != "" {
		return slotName{resource.VirtualHost, resource.VirtualHostName(s.table, s.name)}
	}
	return slotName{s.typ, s.name}
}

// match notes what patches match of a slot. In a mesh without EnvoyFilters there is nothing to
// note, and neither is there of what no patch can change.
func (e *edits) match(s slot, of emitted) {
	if e.patched && s.typ != resource.Endpoint && s.typ != resource.Name && s.typ != resource.Secret {
		e.matches = append(e.matches, resource.Edit{Name: s.resourceName().text(), Resource: of.matched})
	}
}

// matchesAfter returns what patches match in a class after the edits.
func (e *edits) matchesAfter(st *resource.Store, was *resource.Set) *resource.Set {
	if shared := e.shared; shared != nil && len(shared.edits.matches) == len(e.matches) {
		return shared.matches.ApplyTo(was)
	}
	return st.Apply(was, e.matches)
}
