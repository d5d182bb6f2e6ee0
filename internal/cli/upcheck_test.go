package cli

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
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
			out := terminal.New(&screen, noEnv)
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
