package features

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// edited are policies of the server, edits of each other. All refuse requests for /never and accept
// those for /. A part of one with a part of another would accept /never.
var edited = []string{
	livemesh.Object("AuthorizationPolicy p",
		`{action: DENY, rules: [{to: [{operation: {paths: [/never]}}]}]}`),
	livemesh.Object("AuthorizationPolicy p",
		`{action: ALLOW, rules: [{to: [{operation: {paths: [/, /sometimes]}}]}]}`),
	livemesh.Object("AuthorizationPolicy p",
		`{action: DENY, rules: [{to: [{operation: {paths: [/sometimes, /never]}}]}]}`),
}

// besideAnAuthorizer is a policy with another one, which asks an authorizer about all paths but one
// of its own, and so is an edit, too.
func besideAnAuthorizer(policy string, i int) string {
	return policy + livemesh.Object("AuthorizationPolicy asks", fmt.Sprintf(
		`{action: CUSTOM, provider: {name: guard}, rules: [{to: [{operation: {notPaths: [/%d]}}]}]}`, i))
}

// TestEditsOfPoliciesCutNothing edits policies under load, cuts the streams of proxies meanwhile,
// and looks at connections that stay open: no request is refused that all the policies accept, none
// passes that all refuse, each edit holds for the next request, and the listener is not sent again.
func TestEditsOfPoliciesCutNothing(t *testing.T) {
	t.Run("DENY and ALLOW", func(t *testing.T) {
		editsCutNothing(t, "", func(i int) string { return edited[i%len(edited)] })
	})
	t.Run("beside an authorizer", func(t *testing.T) {
		guard := newRecorder(t) // accepts all
		files := livemesh.File("istio.yaml", guardConfig) + livemesh.File("guard.yaml", guard.entry("guard.test"))
		editsCutNothing(t, files, func(i int) string { return besideAnAuthorizer(edited[i%len(edited)], i) })
		guard.mu.Lock()
		defer guard.mu.Unlock()
		require.NotEmpty(t, guard.seen)
	})
}

func editsCutNothing(t *testing.T, files string, policy func(i int) string) {
	m := livemesh.Start(t, files+livemesh.File("mesh.yaml", livemesh.NewEcho("client", "v1"),
		livemesh.Service("client", "http:80:8080"), livemesh.NewEcho("server", "v1"),
		livemesh.Service("server", "http:80:8080"))+livemesh.File("policy.yaml", policy(0)))
	m.RequireNoProblems()
	load := m.Client("client-v1").Load("http://server.default/")
	through := m.Client("client-v1")
	open := kept(t, m)
	never := kept(t, m)
	var passed atomic.Int32
	stop := make(chan struct{})
	var callers sync.WaitGroup
	callers.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if never("/never") != http.StatusForbidden {
					passed.Add(1)
				}
			}
		}
	})
	before := m.Proxy("server-v1").Types[resource.Listener].Sent
	for i := range 12 {
		m.Write("policy.yaml", policy(i+1))
		m.Settle()
		assert.Equal(t, http.StatusOK, open("/"))
		sometimes := map[int]int{0: http.StatusOK, 1: http.StatusOK, 2: http.StatusForbidden}[(i+1)%len(edited)]
		assert.Equal(t, sometimes, open("/sometimes"), "edit %d", i)
		assert.Equal(t, sometimes, through.Get("http://server.default/sometimes").Status, "edit %d", i)
		load.Advance(5)
		if i == 5 {
			require.Equal(t, before, m.Proxy("server-v1").Types[resource.Listener].Sent, "the listener is sent again")
			m.Cut()
		}
	}
	close(stop)
	callers.Wait()
	require.Zero(t, passed.Load())
	load.Stop()
}

// TestEditsOfPoliciesCloseConnectionsByFilterChain edits a policy while connections are open. One
// that the edit refuses is closed when the listener has drained. With it goes one that the edit
// allows, because Envoy closes by filter chain. One that carries requests stays.
func TestEditsOfPoliciesCloseConnectionsByFilterChain(t *testing.T) {
	policy := func(ports string) string {
		return livemesh.File("policy.yaml", livemesh.Object("AuthorizationPolicy p",
			"selector: {matchLabels: {app: server}}\naction: DENY\nrules: [{to: [{operation: {ports: ["+ports+"]}}]}]"))
	}
	m := livemesh.Start(t, livemesh.File("mesh.yaml", livemesh.NewEcho("server", "v1").TCP(7000, 7001),
		livemesh.Service("server", "http:80:8080", "tcp-a:7000", "tcp-b:7001"))+policy(`"1"`))
	requests := kept(t, m)
	require.Equal(t, http.StatusOK, requests("/"))
	refused, allowed := echoing(t, m, 7000), echoing(t, m, 7001)
	require.True(t, refused() && allowed())
	m.Write("policy.yaml", strings.TrimPrefix(policy(`"1", "7000"`), "-- policy.yaml --\n"))
	m.Await("the refused connection is closed", func() bool { return !refused() })
	m.Await("those beside it are closed, too", func() bool { return !allowed() })
	require.True(t, echoing(t, m, 7001)(), "who connects again is let in")
	require.False(t, echoing(t, m, 7000)(), "a refused one is not")
	require.Equal(t, http.StatusOK, requests("/"), "a connection of requests is not cut")
}

// echoing opens a connection past all other proxies. It returns a function that reports whether a
// line comes back on it.
func echoing(t *testing.T, m *livemesh.Mesh, port uint16) (echoes func() bool) {
	t.Helper()
	conn := m.DialPod("server-v1", port)
	answers := bufio.NewReader(conn)
	return func() bool {
		if _, err := io.WriteString(conn, "hello\n"); err != nil {
			return false
		}
		_, err := answers.ReadString('\n')
		return err == nil
	}
}

// kept opens a connection to the server's proxy. It returns a function that sends a request on it
// and returns the status of the answer, 0 when the connection is gone, or is about to.
func kept(t *testing.T, m *livemesh.Mesh) (get func(path string) int) {
	t.Helper()
	conn := m.DialPod("server-v1", 8080)
	answers := bufio.NewReader(conn)
	return func(path string) int { return exchange(conn, answers, path) }
}

func exchange(conn net.Conn, answers *bufio.Reader, path string) int {
	req, err := http.NewRequest(http.MethodGet, "http://server.default"+path, nil)
	if err != nil || req.Write(conn) != nil {
		return 0
	}
	resp, err := http.ReadResponse(answers, req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Close {
		return 0
	}
	return resp.StatusCode
}
