package validate

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
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

// Proxies report conflicts while a fork is used: each goes on by itself.
func TestAForkKnowsNothingOfItsOriginal(t *testing.T) {
	key := source.Key{Kind: kinds.EnvoyFilter, Namespace: "a", Name: "b"}
	problem := source.Problem{Object: key, Path: "spec", Message: "matches nothing"}
	original := NewProblemStore(slog.New(slog.DiscardHandler), nil)
	original.Conflicts([]source.Problem{problem}, nil)
	var mended []source.Problem
	fork := original.Fork(func(_, m []source.Problem) { mended = m })

	reported := make(chan struct{})
	go func() {
		defer close(reported)
		for range 100 {
			original.Conflicts(nil, []source.Problem{problem})
			original.Conflicts([]source.Problem{problem}, nil)
		}
		original.Conflicts(nil, []source.Problem{problem})
	}()
	for n := range 100 {
		fork.SetConversion(key, []source.Problem{{Message: fmt.Sprint("wrong ", n)}})
	}
	<-reported
	require.Empty(t, original.Problems())
	fork.SetConversion(key, nil)
	fork.Conflicts(nil, []source.Problem{problem})
	require.Equal(t, []source.Problem{problem}, mended, "the fork began with it")
	require.Empty(t, fork.Problems())
}
