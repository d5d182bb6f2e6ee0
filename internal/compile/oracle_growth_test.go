package compile

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// Whatever came while a class grew, its first proxy has what compiling the final world from nothing gives it.
func TestAClassThatGrewEqualsFromNothing(t *testing.T) {
	if raced && !isGiven("rapid.checks") {
		setFlag(t, "rapid.checks", "10")
	}
	rapid.Check(t, func(r *rapid.T) { newOracle(t).raise(r) })
}

// raise draws a mesh to which proxies come one after the other, slowly: some find others there, some nobody.
func (o *oracle) raise(t *rapid.T) {
	o.apply(t, o.history.Begin(t))
	for range rapid.IntRange(1, 4).Draw(t, "proxies") {
		o.slow = []*Member{{facts: rapid.SampledFrom(oracleProxies()).Draw(t, "coming")}}
		o.comp.slice = rapid.IntRange(1, 4).Draw(t, "slice")
		for len(o.slow) > 0 {
			o.grow(1)
			if rapid.IntRange(0, 5).Draw(t, "sweep") == 5 {
				o.comp.forgetUnused()
			}
			o.change(t, amidGrowth(t, o.history))
		}
		o.compare(t)
		if rapid.Bool().Draw(t, "all go") {
			o.empty()
		}
	}
}

// amidGrowth is a batch of mostly endpoints, which a step takes to a class without compiling what they belong to.
func amidGrowth(t *rapid.T, h *meshlife.History) []meshlife.Change {
	if rapid.IntRange(0, 3).Draw(t, "any kind") == 3 {
		return []meshlife.Change{h.Next(t)}
	}
	verb := rapid.SampledFrom([]meshlife.Verb{meshlife.Tweak, meshlife.Replace, meshlife.Shift, meshlife.Create, meshlife.Delete}).Draw(t, "verb")
	return []meshlife.Change{h.Make(t, verb, kinds.EndpointSlice)}
}

// empty lets all proxies go, and all that only they had.
func (o *oracle) empty() {
	for _, m := range o.members() {
		o.comp.Leave(m)
		delete(o.placed, m)
		delete(o.wanted, m)
	}
	o.comp.forgetUnused()
}
