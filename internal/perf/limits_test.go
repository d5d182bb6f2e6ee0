package perf

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

func TestWhatDoesNotFitIsToldBeforeTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		room  measure.Room
		fits  int
		lacks string
	}{
		"room":        {measure.Room{Descriptors: 100_000, Memory: 8 << 30}, 0, ""},
		"unknown":     {measure.Room{}, 0, ""},
		"descriptors": {measure.Room{Descriptors: 20_000, Memory: 8 << 30}, 19_872, "ulimit -n 25128 raises it"},
		"few":         {measure.Room{Descriptors: 100}, 0, "the limit here is 100"},
		"memory":      {measure.Room{Descriptors: 100_000, Memory: 1 << 30}, 4362, "3976 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			err := roomFor(25_000, c.room)
			if c.lacks == "" {
				require.NoError(t, err)
				return
			}
			var limit *LimitError
			require.True(t, errors.As(err, &limit))
			require.Equal(t, c.fits, limit.Fits)
			require.ErrorContains(t, err, c.lacks)
			if limit.Fits > 0 {
				require.NoError(t, roomFor(limit.Fits, c.room))
			}
		})
	}
	require.NoError(t, CheckLimits(1))
}
