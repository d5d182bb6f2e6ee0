package session

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// certainty is how far the session knows what a client has under a name.
type certainty uint8

const (
	// known: exactly the version, or nothing if the version is zero.
	known certainty = iota
	// answerDue: whatever the client has, it waits for an answer, even for a removal.
	answerDue
	// uncertain: perhaps the version, perhaps another, perhaps nothing. It must be sent again or
	// removed.
	uncertain
	// retrying: as uncertain, and to be sent only with its group of nackState.retries.
	retrying
)

// holding is what a client has under one name.
type holding struct {
	version   resource.Version
	resource  *resource.Resource // nil if nothing is held or the client only reported the version
	certainty certainty
	// alternative is what the client may have instead, from a response that it refused. It is zero
	// if there was none.
	alternative resource.Version
}

// anyVersion is the holding.alternative of a client that may have any version.
var anyVersion = resource.Version{0xff}

// orVersion adds a version that the client may have instead.
func (h holding) orVersion(v resource.Version) holding {
	if h.alternative.IsZero() {
		h.alternative = v
	} else if h.alternative != v {
		h.alternative = anyVersion
	}
	return h
}

func (h holding) is(v resource.Version) bool { return h.certainty == known && h.version == v }

// isUncertain reports whether it is not known what the client has.
func (h holding) isUncertain() bool {
	return h.certainty == uncertain || h.certainty == retrying || !h.alternative.IsZero()
}

// isAbsent reports whether the client certainly has nothing under the name.
func (h holding) isAbsent() bool { return h.certainty == known && h.version.IsZero() }

// holdings is what a client has of one type: of the base set all that it subscribes to, except
// where an exception says otherwise. For a type with empty resources, it also has that of each
// subscribed name which the base lacks. Responses count as held from the moment they are sent,
// because a stream delivers in order; a NACK takes that back.
type holdings struct {
	base       *resource.Set
	exceptions map[string]holding
}

func (h *holdings) set(name string, x holding) {
	if h.exceptions == nil {
		h.exceptions = map[string]holding{}
	}
	h.exceptions[name] = x
}

// reset removes the exception: the name is held as the base says.
func (h *holdings) reset(name string) {
	delete(h.exceptions, name)
	if len(h.exceptions) == 0 {
		h.exceptions = nil
	}
}

// mayConcern reports whether an exception concerns an upsert of the change. It does not look into
// more than 16 exceptions and then returns true.
func (h *holdings) mayConcern(change *resource.Change) bool {
	const few = 16
	if len(h.exceptions) > few {
		return true
	}
	for name := range h.exceptions {
		if find(change.Upserts, name) != nil {
			return true
		}
	}
	return false
}

// exceptionNames returns the exceptions' names. They are sorted, so that responses are the same in
// every run.
func (h *holdings) exceptionNames() []string {
	if len(h.exceptions) == 0 {
		return nil // nearly always; saves the iterator
	}
	return slices.Sorted(maps.Keys(h.exceptions))
}

// emptyResource returns what a client gets under a subscribed name that its class lacks, or nil if
// it gets a removal.
//
// A ClusterLoadAssignment is never removed: Envoy ACKs the removal and keeps the hosts. An
// assignment without endpoints removes them.
//
// A RouteConfiguration is never removed either: Envoy ignores it. On a new subscription that would
// leave the listener warming until its fetch times out, or for ever if the timeout is 0. A table
// without virtual hosts answers 404, as after the timeout, but at once. On a live subscription the
// table of a listener that goes must stay while the listener drains. So there the empty table
// counts as a removal: it is sent last, and only if the client still wants the name.
//
// Both messages begin with their name in field 1.
func (ts *typeState) emptyResource(name string) *resource.Resource {
	if ts.typ != resource.Endpoint && ts.typ != resource.Route {
		return nil
	}
	body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	switch {
	case ts.typ == resource.Endpoint:
		return resource.NewAssignment(name, body, nil)
	case ts.session.vhds:
		return resource.NewTableHead(name, body) // a table never changes its form
	}
	return resource.NewWholeTable(name, body)
}
