package perf

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDelaysAreSecondsOrDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "2.5": 2500 * time.Millisecond, "2.5s": 2500 * time.Millisecond, "100ms": 100 * time.Millisecond,
	} {
		d, err := parseDelay(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d, text)
	}
	for _, text := range []string{"", "-1", "soon"} {
		_, err := parseDelay(text)
		require.ErrorContains(t, err, "want seconds, as 2.5, or a duration", text)
	}
}

func TestSelectorsAreLabels(t *testing.T) {
	got, err := parseLabels("app=catalog,version=v1")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"app": "catalog", "version": "v1"}, got)
	for _, text := range []string{"", "catalog", "a=b=c"} {
		_, err := parseLabels(text)
		require.Error(t, err, text)
	}
}
