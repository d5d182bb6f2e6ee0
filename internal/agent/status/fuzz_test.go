package status

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzCopyLines: what is passed on are whole lines of what came, in its order, within the limit.
func FuzzCopyLines(f *testing.F) {
	f.Add("a 1\n\nb 2\r\n# EOF\n", 100)
	f.Add("a 1\nb 2", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		var b strings.Builder
		err := copyLines(&b, strings.NewReader(text), limit)
		require.LessOrEqual(t, b.Len(), max(limit, 0)+1)
		rest := strings.Split(text, "\n")
		for line := range strings.Lines(b.String()) {
			line = strings.TrimSuffix(line, "\n")
			for len(rest) > 0 && strings.TrimRight(rest[0], "\r") != line {
				rest = rest[1:]
			}
			require.NotEmpty(t, rest, "%q is no line of the text", line)
			rest = rest[1:]
		}
		if err == nil {
			require.NotContains(t, b.String(), "\n\n")
		}
	})
}

// FuzzReadiness: whatever Envoy says, the answer is yes or why not.
func FuzzReadiness(f *testing.F) {
	f.Add(live+"cluster_manager.cds.update_success: 1\n", true)
	f.Fuzz(func(t *testing.T, stats string, accepted bool) {
		r := &Readiness{
			Stats:    func(context.Context, string) (string, error) { return stats, nil },
			Accepted: func() bool { return accepted },
		}
		if r.Check(context.Background()) == nil {
			require.Contains(t, stats, workersStarted+": ")
		}
	})
}
