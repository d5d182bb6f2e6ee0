package forkmap

import (
	"maps"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Maps that were forked, and forked again, answer as copies do.
func TestForkedMapsAreAsCopies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		forks, copies := []*Map[int, int]{New[int, int]()}, []map[int]int{{}}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, len(forks)-1).Draw(t, "which")
			k := rapid.IntRange(0, 4).Draw(t, "key")
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				forks, copies = append(forks, forks[i].Fork()), append(copies, maps.Clone(copies[i]))
			case 1:
				forks[i].Drop(k)
				delete(copies[i], k)
			default:
				v := rapid.Int().Draw(t, "value")
				forks[i].Put(k, v)
				copies[i][k] = v
			}
			for at, f := range forks {
				require.Equal(t, copies[at], f.All())
				v, has := f.Find(k)
				require.Equal(t, copies[at][k], v)
				_, want := copies[at][k]
				require.Equal(t, want, has)
			}
		}
	})
}

// A map hands nothing to forks that nobody uses any more.
func TestUnusedForkIsForgotten(t *testing.T) {
	m := New[int, int]()
	used := m.Fork()
	for range 10 {
		m.Fork()
	}
	for range 3 {
		runtime.GC()
	}
	m.Put(1, 1)
	require.Len(t, m.forks, 1)
	require.Zero(t, used.Get(1))
	runtime.KeepAlive(used)
}
