package session

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// doubt is how far the session knows what a client has under a name.
type doubt uint8

const (
	// sure: exactly the version, or nothing when the version is zero.
	sure doubt = iota
	// asked: whatever it has, it waits for an answer, were it a removal.
	asked
	// unsure: perhaps the version, perhaps another, perhaps nothing; it must be sent again or removed.
	unsure
	// retrying: as unsure, and to be sent only with its group of Session.refuse.
	retrying
)

// holding is what a client has under one name.
type holding struct {
	version  resource.Version
	resource *resource.Resource // nil when nothing is held or the client only stated the version
	doubt    doubt
	// maybe is what the client may have instead, from a response that it refused; zero when there was none.
	maybe resource.Version
}

// anything is the holding.maybe of a client that may have any version.
var anything = resource.Version{0xff}

// or adds a version that the client may have instead.
func (h holding) or(v resource.Version) holding {
	if h.maybe.IsZero() {
		h.maybe = v
	} else if h.maybe != v {
		h.maybe = anything
	}
	return h
}

func (h holding) is(v resource.Version) bool { return h.doubt == sure && h.version == v }

// doubtful tells that a client may not know itself what it has.
func (h holding) doubtful() bool {
	return h.doubt == unsure || h.doubt == retrying || !h.maybe.IsZero()
}

// nothing tells that the client surely has nothing under the name.
func (h holding) nothing() bool { return h.doubt == sure && h.version.IsZero() }

// holdings is what a client has of one type: of the base set all that it subscribes to (for a type with stand-ins, the
// stand-in of each subscribed name that the base lacks), except where an exception says otherwise. Responses count as held
// from the moment they are sent, because a stream delivers in order; a NACK takes that back.
type holdings struct {
	base   *resource.Set
	except map[string]holding
}

func (h *holdings) note(name string, x holding) {
	if h.except == nil {
		h.except = map[string]holding{}
	}
	h.except[name] = x
}

// forget makes the name one that is held as the base says.
func (h *holdings) forget(name string) {
	delete(h.except, name)
	if len(h.except) == 0 {
		h.except = nil
	}
}

// differ tells whether an exception is about an upsert. It does not look into many: true may also mean that.
func (h *holdings) differ(change *resource.Change) bool {
	const few = 16
	if len(h.except) > few {
		return true
	}
	for name := range h.except {
		if find(change.Upserts, name) != nil {
			return true
		}
	}
	return false
}

// names are the exceptions' names, sorted so that responses are the same in every run.
func (h *holdings) names() []string {
	if len(h.except) == 0 {
		return nil // as nearly always, so not at the price of an iterator
	}
	return slices.Sorted(maps.Keys(h.except))
}

// standIn is what a client gets under a subscribed name that its class lacks, nil when a removal says it.
//
// A ClusterLoadAssignment is never removed: Envoy ACKs the removal and keeps the hosts. One without endpoints takes them.
//
// A RouteConfiguration is never removed either: Envoy ignores it. On a new subscription that would leave the listener warming
// until its fetch times out, or for ever where the timeout is 0; a table without virtual hosts answers 404, which is what
// the timeout would have come to, but at once. On a live subscription the table of a listener that goes, too, must stay
// while the listener drains, so there the stand-in counts as a removal: last, and only if the client still wants the name.
//
// Both messages begin with their name in field 1.
func (c *channel) standIn(name string) *resource.Resource {
	if c.typ != resource.Endpoint && c.typ != resource.Route {
		return nil
	}
	body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	switch {
	case c.typ == resource.Endpoint:
		return resource.NewAssignment(name, body, nil)
	case c.session.pieces:
		return resource.NewTableHead(name, body) // a table never changes its form
	}
	return resource.NewWholeTable(name, body)
}
