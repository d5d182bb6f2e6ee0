package validate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshlife"
)

// What a fork is told of a change is what then appears and is mended, and the original has none of
// it before.
func TestForksForeseeProblems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, c := meshlife.NewHistory(), newChecked()
		c.apply(stateUpdates(h.Begin(t))...)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			var updates []meshlife.Update
			for range rapid.IntRange(1, 6).Draw(t, "in one batch") {
				updates = append(updates, h.Next(t).Updates...)
			}
			before := c.store.Problems()
			var appeared, mended []source.Problem
			store := c.store.Fork(func(a, m []source.Problem) { appeared, mended = a, m })
			c.check.Fork(store).Check(c.writer.Fork().Apply(stateUpdates(updates)))
			store.Publish()
			requireSame(t, "the original", texts(before), texts(c.store.Problems()))
			after := c.apply(stateUpdates(updates)...)
			requireSame(t, "appeared", texts(without(after, before)), sortedTexts(appeared))
			requireSame(t, "mended", texts(without(before, after)), sortedTexts(mended))
		}
	})
}

// without returns the problems that others do not have.
func without(problems, others []source.Problem) []source.Problem {
	return slices.DeleteFunc(slices.Clone(problems), func(p source.Problem) bool { return slices.Contains(others, p) })
}

func sortedTexts(problems []source.Problem) []string {
	slices.SortFunc(problems, source.Problem.Compare)
	return texts(problems)
}
