package compile

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/testkit/draws"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// Whatever objects of the Gateway API come and go among others, each proxy has what compiling from
// nothing gives it.
func TestAttachmentsAreCompiledAsFromNothing(t *testing.T) {
	if !draws.Given() {
		draws.Checks(t, "30")
	}
	rapid.Check(t, func(r *rapid.T) {
		attach := func(t *rapid.T, h *meshlife.History) []meshlife.Change {
			changes := []meshlife.Change{h.Attach(t), h.Attach(t)}
			if rapid.IntRange(0, 2).Draw(t, "beside it") == 0 {
				changes = append(changes, h.Next(t))
			}
			return changes
		}
		newOracle(t).live(r, attach, func(meshlife.Change, outcome) {})
	})
}
