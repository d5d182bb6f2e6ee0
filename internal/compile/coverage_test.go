package compile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/testkit/draws"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// TestEveryKindOfChangeOccurs compares as TestIncrementalEqualsFromNothing does, and counts what
// happened: each sort of change to each kind of object, with and without an effect on some proxy.
// It draws the same lives each time, of changes that are still missing, until none is. -v shows the
// table.
func TestEveryKindOfChangeOccurs(t *testing.T) {
	if testing.Short() {
		t.Skip("draws fewer lives when short")
	}
	if raced {
		t.Skip("one goroutine does it all")
	}
	draws.Seed(t, "1")     // the same draws each time,
	draws.Checks(t, "500") // and more than enough
	seen := tally{}
	rapid.Check(t, func(r *rapid.T) {
		if len(seen.unseen()) > 0 {
			newOracle(t).live(r, seen.missing, seen.count)
		}
	})
	t.Log(seen)
	for _, verb := range meshlife.Verbs {
		for _, kind := range verb.Kinds() {
			c := seen[event{verb, kind}]
			require.NotZero(t, c.without, "%s %s without effect", verb, kind)
			if c.with == 0 && isRare(verb, kind) {
				continue
			}
			require.Equal(t, hasEffect(verb, kind), c.with > 0, "%s %s with effect", verb, kind)
		}
	}
	for _, kind := range meshlife.Kinds {
		require.Equal(
			t, movesProxies(kind), seen[event{kind: kind}].moved > 0, "proxies change their class because of a %s",
			kind,
		)
	}
}

// hasEffect tells whether a sort of change can make a difference to proxies at all.
func hasEffect(verb meshlife.Verb, kind kinds.Kind) bool {
	switch {
	case verb == meshlife.Resend || verb == meshlife.Relist:
		return false
	case verb == meshlife.Younger && (kind == kinds.Sidecar || kind == kinds.PeerAuthentication):
		// only the first of those that select the same is in force
		return false
	}
	return kind != kinds.Namespace && kind != kinds.ProxyConfig // which no resource reads
}

// isRare tells that an effect may not show: inbound ports alone show what filters of policies do,
// and the simpler changes suffice; that the name of a slice counts is a case of its own
// (TestTheNameOfASliceCounts).
func isRare(verb meshlife.Verb, kind kinds.Kind) bool {
	if verb == meshlife.Rename && kind == kinds.EndpointSlice {
		return true
	}
	simple := []meshlife.Verb{meshlife.Create, meshlife.Delete, meshlife.Tweak, meshlife.Replace, meshlife.Relabel}
	isPolicy := kind == kinds.AuthorizationPolicy || kind == kinds.PeerAuthentication ||
		kind == kinds.RequestAuthentication || kind == kinds.Telemetry || kind == kinds.EnvoyFilter
	return isPolicy && !slices.Contains(simple, verb)
}

// movesProxies tells whether classes depend on objects of a kind.
func movesProxies(kind kinds.Kind) bool {
	return !slices.Contains([]kinds.Kind{
		kinds.Secret, kinds.EndpointSlice, kinds.Namespace, kinds.Node, meshlife.KeySets,
		kinds.ProxyConfig,
	}, kind)
}

// tally counts outcomes by sort of change and kind of object, and with no verb by kind alone.
type tally map[event]counts

type event struct {
	verb meshlife.Verb
	kind kinds.Kind
}

// counts are steps with an effect on some proxy, without one, and those that moved a proxy to
// another class.
type counts struct{ with, without, moved int }

func (y tally) count(c meshlife.Change, did outcome) {
	for _, e := range []event{{c.Verb, c.Kind}, {kind: c.Kind}} {
		n := y[e]
		if did.effect {
			n.with++
		} else {
			n.without++
		}
		if did.moved {
			n.moved++
		}
		y[e] = n
	}
}

// missing draws a change, alone, of which some outcome was not seen yet, or any when all were.
func (y tally) missing(t *rapid.T, h *meshlife.History) []meshlife.Change {
	unseen := y.unseen()
	if len(unseen) == 0 {
		return []meshlife.Change{h.Next(t)}
	}
	e := rapid.SampledFrom(unseen).Draw(t, "unseen")
	if e.verb == meshlife.Rename && rapid.Bool().Draw(t, "a twin first") {
		if twin, ok := h.Twin(t, e.kind); ok {
			return []meshlife.Change{twin}
		}
	}
	return []meshlife.Change{h.Make(t, e.verb, e.kind)}
}

// unseen are the changes of which some outcome was not seen yet.
func (y tally) unseen() []event {
	var unseen []event
	for _, kind := range meshlife.Kinds {
		if movesProxies(kind) && y[event{kind: kind}].moved == 0 {
			unseen = append(unseen, event{meshlife.Replace, kind})
		}
	}
	for _, verb := range meshlife.Verbs {
		for _, kind := range verb.Kinds() {
			if c := y[event{verb, kind}]; c.without == 0 ||
				c.with == 0 && hasEffect(verb, kind) && !isRare(verb, kind) {
				unseen = append(unseen, event{verb, kind})
			}
		}
	}
	return unseen
}

func (y tally) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "steps with effect/without/that move proxies\n%-10s", "")
	for _, kind := range meshlife.Kinds {
		fmt.Fprintf(&b, "%16s", kind)
	}
	for _, verb := range append(slices.Clone(meshlife.Verbs), "") {
		fmt.Fprintf(&b, "\n%-10s", verb)
		for _, kind := range meshlife.Kinds {
			c := y[event{verb, kind}]
			fmt.Fprintf(&b, "%16s", fmt.Sprintf("%d/%d/%d", c.with, c.without, c.moved))
		}
	}
	return b.String()
}
