package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// duration is how long a person waits for a command: no test can hold it, since it is of a machine.
var duration = regexp.MustCompile(`(?i)\b(?:takes?|compiles for|in|it:) ` +
	`(?:about |some |less than |up to )?(?:(?:a|one|two|three|four|five|six|ten|\d+)(?: (?:to|or) \w+)? )?` +
	`(?:seconds?|minutes?|hours?)\b`)

// TestGuidesPromiseNoDurations of commands. docs/performance.md has those that are measured, with
// the machine.
func TestGuidesPromiseNoDurations(t *testing.T) {
	for _, p := range pages(t) {
		if !strings.HasPrefix(p.path, "docs/guides/") && !strings.HasPrefix(p.path, "docs/contributing/") {
			continue
		}
		text := strings.Join(p.prose(), " ")
		require.Empty(t, duration.FindAllString(text, -1), p.path)
	}
}

func TestDurationsAreFound(t *testing.T) {
	for _, text := range []string{
		"the first build takes four to five minutes", "which takes minutes", "It takes about ten minutes.",
		"`make kube` builds it: four to five minutes", "runs them, in five minutes",
		"compiles for a minute or two", "a start takes two to five seconds",
	} {
		require.Regexp(t, duration, text)
	}
	require.NotRegexp(t, duration, "a replica has 1.5 times the average for 30 minutes, which takes a CPU")
}
