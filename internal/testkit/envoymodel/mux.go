package envoymodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// mux is Envoy's side of the stream: who in it watches what, and what that means for the wire.
type mux interface {
	// watch makes w a recipient of what is sent under the name; the empty name is everything of the
	// kind, and that of a table all its virtual hosts.
	watch(k Kind, name string, w watcher)
	unwatch(k Kind, w watcher)
	// pause holds requests of the kind back until as many calls of resume.
	pause(k Kind)
	resume(k Kind)
	open()
	receive(response proto.Message)
	flush()
	watched(k Kind, name string) bool
}

// watcher is somebody in Envoy who receives resources.
type watcher interface {
	// update takes what a response says to the watcher, and returns why it refuses, or nothing.
	update(u update) (refusal string)
	// failed tells that a response of the watched kind was refused, whoever's it was.
	failed()
}

// update is what one response says to one watcher.
type update struct {
	resources []resource
	removed   []string
	full      bool   // what it does not name is not there
	version   string // of the response
}

// resource is one that was decoded.
type resource struct {
	name    string // in the body
	wire    string // on the wire
	version string
	body    string
	message proto.Message
}

// subscriptions is what both variants keep.
type subscriptions struct {
	sub   [numKinds]*subscription
	order []Kind // in which the kinds were asked for first; a new stream asks for them in the same
}

type subscription struct {
	kind    Kind
	known   bool // it has been watched; from then on responses of the kind are read
	watches []watch
	paused  int
	opened  bool // a request of the kind was sent on this stream
	// The names in the order in which they matter to nobody, sorted where they are sent.
	names map[string]int // watchers by name, without those of everything
}

type watch struct {
	name string
	watcher
}

func newSubscriptions() *subscriptions {
	s := &subscriptions{}
	for k := range s.sub {
		s.sub[k] = &subscription{kind: Kind(k), names: map[string]int{}}
	}
	return s
}

// add tells whether the name was not watched before.
func (all *subscriptions) add(k Kind, name string, w watcher) bool {
	s := all.sub[k]
	if !s.known {
		all.order = append(all.order, k)
	}
	s.known = true
	s.watches = append(s.watches, watch{name, w})
	if k.wildcard() {
		return true
	}
	s.names[name]++
	return s.names[name] == 1
}

// drop tells under which name the watcher watched, and whether that was the last one.
func (s *subscription) drop(w watcher) (name string, last bool) {
	i := slices.IndexFunc(s.watches, func(x watch) bool { return x.watcher == w })
	if i < 0 {
		return "", false
	}
	name = s.watches[i].name
	s.watches = slices.Delete(s.watches, i, i+1)
	if s.kind.wildcard() {
		return name, false
	}
	s.names[name]--
	if s.names[name] > 0 {
		return name, false
	}
	delete(s.names, name)
	return name, true
}

func (all *subscriptions) watched(k Kind, name string) bool {
	return slices.ContainsFunc(all.sub[k].watches, func(w watch) bool { return k.covers(w.name, name) })
}

func (s *subscription) failAll() {
	for _, w := range slices.Clone(s.watches) {
		w.failed()
	}
}

// decode reads a body, with the rules of protoc-gen-validate, and returns why it cannot be read, or
// nothing.
func decode(k Kind, body []byte) (resource, string) {
	m := kinds[k].message()
	if err := proto.Unmarshal(body, m); err != nil {
		return resource{}, fmt.Sprintf("Unable to unpack as %s: [type.googleapis.com/%s]",
			m.ProtoReflect().Descriptor().FullName(),
			m.ProtoReflect().Descriptor().FullName())
	}
	if err := m.Validate(); err != nil {
		return resource{}, fmt.Sprintf("Proto constraint validation failed (%v): %v", err, m)
	}
	return resource{name: nameOf(m), body: string(body), message: m}, ""
}

func nameOf(m proto.Message) string {
	switch named := m.(type) {
	case interface{ GetClusterName() string }:
		return named.GetClusterName()
	case interface{ GetName() string }:
		return named.GetName()
	}
	return ""
}

// refusals lists what Envoy refuses of clusters and listeners, in its words.
type refusals []string

func (r *refusals) add(name, why string) { *r = append(*r, name+": "+why) }

func (r refusals) message(prefix, separator string) string {
	if len(r) == 0 {
		return ""
	}
	return prefix + strings.Join(r, separator)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
