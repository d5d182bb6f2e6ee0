package change

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// policyNumber is the policy of the server in one of its versions. All of them refuse requests for
// /never, and each those for a path of its own. A part of one with a part of another would accept
// /never.
func policyNumber(i int) string {
	rules := "  action: DENY\n  rules:\n  - to: [{operation: {paths: [/never, /%d]}}]\n"
	if i%2 == 1 {
		rules = "  action: ALLOW\n  rules:\n  - to: [{operation: {notPaths: [/never, /%d]}}]\n"
	}
	return policyHead + fmt.Sprintf(rules, i)
}

const policyHead = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: one}
spec:
  selector: {matchLabels: {app: one}}
`

// refusedPolicy is one that Envoy refuses: an expression in it is too large.
func refusedPolicy() string {
	return policyHead + "  action: DENY\n  rules:\n  - to: [{operation: {paths: [/never]}}]\n" +
		`  - from: [{source: {principals: ["*` + strings.Repeat("a", 40000) + "\"]}}]\n"
}

// TestPoliciesAreNeverOpenInBetween edits the policy of a server under load. Meanwhile its Envoy
// refuses an edit, and the control plane and Envoy are killed, by themselves and in the middle of
// an edit. A request that the policies before and after refuse never passes, whatever is going on.
func TestPoliciesAreNeverOpenInBetween(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "zero")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "zero"))))
	m := &mesh{t: t, dir: dir}
	m.write("policy.yaml", policyNumber(0))
	m = start(t, dir, "--separate-control-plane")
	pods := m.running("one")
	s := &guarded{mesh: m, address: pods[only(t, pods)]}
	s.awaitPolicy(0)
	stop := s.attack(t, 4)
	edits := 0
	edit := func() {
		edits++
		m.write("policy.yaml", policyNumber(edits))
	}
	refuse := func() {
		before := m.metric("pilot_total_xds_rejects", `type="ecds"`)
		m.write("policy.yaml", refusedPolicy())
		await(t, "Envoy refuses the edit", func() bool {
			return m.metric("pilot_total_xds_rejects", `type="ecds"`) > before
		})
	}
	for round := range 2 {
		edit()
		s.awaitPolicy(edits)

		refuse()
		require.Equal(t, http.StatusForbidden, s.get(fmt.Sprintf("/%d", edits)), "the policy before is in force")
		require.Equal(t, http.StatusOK, s.get("/"))
		edit()
		s.awaitPolicy(edits)

		edit() // and before that is anywhere,
		s.killControlPlane(t)
		s.awaitPolicy(edits)

		edit()
		s.killEnvoy(t)
		s.awaitPolicy(edits)

		refuse()
		s.killControlPlane(t) // the next one meets an Envoy that has refused what it sends
		require.Equal(t, http.StatusForbidden, s.get(fmt.Sprintf("/%d", edits)), "the policy before is in force")
		s.killEnvoy(t) // the next one has none before it: it refuses everything
		await(t, "Envoy is back", func() bool { return s.get("/") == http.StatusForbidden })
		edit()
		s.awaitPolicy(edits)
		t.Logf("round %d", round)
	}
	refused, passed := stop()
	t.Logf("%d edits, %d requests refused", edits, refused)
	require.NotZero(t, refused)
	require.Zero(t, passed, "requests that no policy lets through")
}

// guarded is a server with a policy.
type guarded struct {
	*mesh
	address string
}

// get returns the status of a request on a connection of its own, 0 without an answer.
func (s *guarded) get(path string) int {
	status, _, err := get(context.Background(), &http.Client{
		Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true},
	}, "http://"+s.address+":9080"+path, nil)
	if err != nil {
		return 0
	}
	return status
}

// awaitPolicy waits until a policy is in force, and not the one before it any more.
func (s *guarded) awaitPolicy(i int) {
	s.t.Helper()
	await(s.t, fmt.Sprintf("policy %d", i), func() bool {
		return s.get(fmt.Sprintf("/%d", i)) == http.StatusForbidden && s.get(fmt.Sprintf("/%d", i-1)) == http.StatusOK
	})
}

func (s *guarded) killControlPlane(t *testing.T) {
	t.Helper()
	mark := s.screen.mark()
	require.NoError(t, syscall.Kill(s.controlPlane(), syscall.SIGKILL))
	s.screen.await(t, mark, `control-plane: ready`)
	s.requireSettledBut("one-")
}

// requireSettledBut waits until all proxies are connected and have everything, but for those of a
// Deployment, which may have refused something.
func (s *guarded) requireSettledBut(deployment string) {
	s.t.Helper()
	await(s.t, "all proxies are back", func() bool {
		proxies := s.status().Proxies
		for _, p := range proxies {
			if p.Pending && !strings.HasPrefix(p.Proxy, deployment) {
				return false
			}
		}
		return len(proxies) == 10
	})
}

func (s *guarded) killEnvoy(t *testing.T) {
	t.Helper()
	mark := s.screen.mark()
	s.kill(t, "one", "istio-proxy")
	s.screen.await(t, mark, `default/one-\S+ \(istio-proxy\): crashed: signal: killed; starts again in `)
}

// attack sends requests for /never, on connections that it keeps as long as they last, until it is
// stopped.
func (s *guarded) attack(t *testing.T, connections int) (stop func() (refused, passed int64)) {
	t.Helper()
	var wait sync.WaitGroup
	var refused, passed atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	for range connections {
		wait.Go(func() {
			client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				switch status, _, err := get(ctx, client, "http://"+s.address+":9080/never", nil); {
				case err != nil: // nobody listens
				case status == http.StatusForbidden:
					refused.Add(1)
				case status == http.StatusOK:
					passed.Add(1)
				}
			}
		})
	}
	return func() (int64, int64) {
		cancel()
		wait.Wait()
		return refused.Load(), passed.Load()
	}
}
