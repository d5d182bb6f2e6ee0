package up

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/process"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

// TestVerdictOfACheck: a mesh that refuses everything has failed, one that refuses something has
// not.
func TestVerdictOfACheck(t *testing.T) {
	open, closed := target{host: "open.example", path: "/"}, target{path: "/admin"}
	for _, c := range []struct {
		name     string
		statuses map[target][]int
		mistakes int
		failed   bool
		says     string
	}{
		{"all is well", map[target][]int{open: {200, 302}}, 0, false, "OK: 2 requests, none failed\n"},
		{"one refuses", map[target][]int{open: {200}, closed: {403, 401}}, 0, false,
			"OK: 3 requests, none failed, 2 refused (401 or 403)\n"},
		{"all refuse", map[target][]int{open: {403}, closed: {403, 401}}, 0, true,
			"FAILED: 0 of 3 requests failed, 3 refused (401 or 403), 0 errors in the manifests\n"},
		{"a route is missing", map[target][]int{open: {200, 404}, closed: {503}}, 0, true,
			"FAILED: 2 of 3 requests failed, 0 errors in the manifests\n"},
		{"a mistake", map[target][]int{open: {200}}, 1, true,
			"FAILED: 0 of 1 requests failed, 1 error in the manifests\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			results := map[target]*result{}
			for tg, statuses := range c.statuses {
				results[tg] = &result{statuses: map[string]int{}}
				for _, s := range statuses {
					results[tg].count(s)
				}
			}
			var screen strings.Builder
			out := console.Plain(&screen)
			sum := printAnswers(out, []target{open, closed}, results)
			sum.mistakes = c.mistakes
			err := printVerdict(out, sum)
			require.Equal(t, c.failed, err != nil)
			require.Contains(t, screen.String(), c.says)
			require.Equal(t, sum.refused > 0, strings.Contains(screen.String(), "REFUSED"))
		})
	}
}

func TestAnswersThatCountAsRefused(t *testing.T) {
	r := result{statuses: map[string]int{}}
	for _, s := range []int{http.StatusOK, http.StatusFound, http.StatusUnauthorized, http.StatusForbidden,
		http.StatusMethodNotAllowed, http.StatusNotFound, http.StatusServiceUnavailable} {
		r.count(s)
	}
	require.Equal(t, 2, r.refused)
	require.Equal(t, 2, r.failed)
}

func TestACheckThatIsStoppedSaysSo(t *testing.T) {
	var screen strings.Builder
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	o := upOptions{
		dir:       t.TempDir(),
		stateDir:  t.TempDir(),
		envoy:     "/bin/true",
		log:       process.LogFlags{Level: "info", Format: "text"},
		check:     true,
		freePorts: true,
		requests:  1, timeout: time.Minute, listen: process.ListenFlags{XDS: "127.0.0.1:0", Monitoring: "127.0.0.1:0"},
	}
	require.ErrorIs(t, runUp(ctx, o, terminal.New(&screen, os.Getenv)), command.ErrFailed)
	require.Equal(t, "stopped before the check was done\n", screen.String())
}
