package observe

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestUntrustedIsOneShortLineOfText(t *testing.T) {
	require.Equal(t, "1.29.0", Untrusted("1.29.0", 64))
	require.Equal(t, "a b  [31mc", Untrusted("a\nb\r\x1b[31mc", 64))
	require.Equal(t, "ab", Untrusted("a\xffb", 64))
	require.Equal(t, "a b", Untrusted("a\u2028b", 64))
	require.Equal(t, "ab…", Untrusted("abcdefg", 5))
	require.Equal(t, "é…", Untrusted("ééé", 5))
	for limit := range 40 {
		s := Untrusted(strings.Repeat("\xe2\x82\xac\n", 50), limit)
		require.LessOrEqual(t, len(s), max(limit, len("…")))
		require.True(t, utf8.ValidString(s))
	}
}

func TestLogLimitAllows10LinesOfAKindIn10s(t *testing.T) {
	var l LogLimit
	now := time.Unix(1000, 0)
	for range logBurst {
		skipped, ok := l.Allow("a", now)
		require.True(t, ok)
		require.Zero(t, skipped)
	}
	for range 3 {
		_, ok := l.Allow("a", now.Add(logInterval-1))
		require.False(t, ok)
	}
	_, ok := l.Allow("b", now)
	require.True(t, ok, "each kind has its own limit")
	skipped, ok := l.Allow("a", now.Add(logInterval))
	require.True(t, ok)
	require.Equal(t, 3, skipped)
}
