package compile

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// Whatever changes while a class is built, its first proxy has what compiling the final snapshot
// from nothing gives it.
func TestClassBuiltInChunksEqualsFromNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) { newOracle(t).buildSlowly(r) })
}

// buildSlowly draws a mesh to which proxies come one after the other, slowly. Some find other
// proxies there, some none.
func (o *oracle) buildSlowly(t *rapid.T) {
	o.apply(t, o.history.Begin(t))
	for range rapid.IntRange(1, 4).Draw(t, "proxies") {
		o.slow = []Facts{rapid.SampledFrom(oracleProxies()).Draw(t, "coming")}
		o.comp.chunkSize = rapid.IntRange(1, 4).Draw(t, "slice")
		for len(o.slow) > 0 {
			o.buildChunks(1)
			if rapid.IntRange(0, 5).Draw(t, "sweep") == 5 {
				o.comp.forgetUnused()
			}
			o.change(t, betweenChunks(t, o.history))
		}
		o.compare(t)
		if rapid.Bool().Draw(t, "all go") {
			o.empty()
		}
	}
}

// betweenChunks is a batch of mostly endpoints. A step takes these to a class without compiling
// what they belong to.
func betweenChunks(t *rapid.T, h *meshlife.History) []meshlife.Change {
	if rapid.IntRange(0, 3).Draw(t, "any kind") == 3 {
		return []meshlife.Change{h.Next(t)}
	}
	verb := rapid.SampledFrom([]meshlife.Verb{
		meshlife.Tweak, meshlife.Replace, meshlife.Shift, meshlife.Create, meshlife.Delete,
	}).Draw(t, "verb")
	return []meshlife.Change{h.Make(t, verb, kinds.EndpointSlice)}
}

// empty removes all proxies, and all that only they had.
func (o *oracle) empty() {
	for _, m := range o.members() {
		o.comp.Leave(m)
		delete(o.placed, m)
		delete(o.wanted, m)
	}
	o.comp.forgetUnused()
}
