package features

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// kindsOfPolicies are policies of the server, by their kinds. Each refuses requests for /never and
// connections that are not HTTP, and accepts requests for /. It alone refuses the path with its
// number. The one that asks about /3 accepts it, and DENY beside it does not.
func kindsOfPolicies(tokens *signer) (all []string) {
	asks := func(path string) string {
		return livemesh.Object("AuthorizationPolicy p", "action: CUSTOM\nprovider: {name: guard}\n"+
			"rules: [{to: [{operation: {paths: [/never, "+path+"]}}]}]\n")
	}
	authentication := livemesh.Object("RequestAuthentication t", "jwtRules: ["+tokenRule(tokens, "")+"]")
	return []string{
		livemesh.Object("AuthorizationPolicy p",
			`{action: DENY, rules: [{to: [{operation: {paths: [/never, /0]}}]}]}`),
		asks("/1"),
		authentication + livemesh.Object("AuthorizationPolicy p", `rules:
- to: [{operation: {paths: [/, /0, /1, /3, /4]}}]
- from: [{source: {requestPrincipals: ["*"]}}]
`),
		asks("/3") + livemesh.Object("AuthorizationPolicy q",
			`{action: DENY, rules: [{to: [{operation: {paths: [/3, /never]}}]}]}`),
		authentication + livemesh.Object("AuthorizationPolicy p",
			`{action: DENY, rules: [{from: [{source: {notRequestPrincipals: ["*"]}}], `+
				`to: [{operation: {paths: [/never, /4]}}]}]}`),
	}
}

// guardConfig is a mesh configuration with the authorizer guard.
const guardConfig = `apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: "extensionProviders: [{name: guard, envoyExtAuthzHttp: {service: guard.test, port: 80}}]"}
`

// TestEditsBetweenKindsOfPoliciesAreNeverOpen replaces policies of one kind by those of another
// under load: an authorizer, tokens, DENY and ALLOW. What all of them refuse never passes.
func TestEditsBetweenKindsOfPoliciesAreNeverOpen(t *testing.T) {
	guard := newRecorder(t)
	guard.answers(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/never" || r.URL.Path == "/1" {
			w.WriteHeader(http.StatusForbidden)
		}
		return true
	})
	policies := kindsOfPolicies(newSigner(t, "https://a.test"))
	m := livemesh.Start(t, livemesh.File("istio.yaml", guardConfig)+livemesh.File("mesh.yaml",
		livemesh.NewEcho("server", "v1").TCP(7000), livemesh.Service("server", "http:80:8080", "tcp:7000"),
		guard.entry("guard.test"))+
		livemesh.File("policy.yaml", policies[0]))
	m.RequireNoProblems()
	stop := attacked(t, netip.AddrPortFrom(m.Pod("server-v1").Pod, 8080))
	get := func(path string) int { return m.Gateway("server-v1", 8080).Get(path).Status }
	for i := range 3 * len(policies) {
		at := (i + 2*i/len(policies)) % len(policies) // each follows others, too
		m.Write("policy.yaml", policies[at])
		marked := []string{"/0", "/1", "/2", "/3", "/4"}[at]
		m.Await("policy "+marked+" is in force", func() bool { return get(marked) != 200 && get("/") == 200 })
	}
	requests, connections, passed := stop()
	t.Logf("%d requests and %d connections", requests, connections)
	require.NotZero(t, requests)
	require.NotZero(t, connections)
	require.Zero(t, passed)
}

// attacked asks a server for /never, on connections that it keeps as long as they last, and for a
// line on new ones to port 7000. The function that it returns ends that, and says how much there
// was and what passed.
func attacked(t *testing.T, server netip.AddrPort) (stop func() (requests, connections, passed int64)) {
	t.Helper()
	var asked, dialed, passed atomic.Int64
	var attackers sync.WaitGroup
	ended := make(chan struct{})
	repeat := func(attack func()) {
		attackers.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
					attack()
				}
			}
		})
	}
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
	for range 2 {
		repeat(func() {
			resp, err := client.Get("http://" + server.String() + "/never")
			if err != nil {
				return
			}
			defer func() { _ = resp.Body.Close() }()
			_, _ = io.Copy(io.Discard, resp.Body)
			asked.Add(1)
			if resp.StatusCode == http.StatusOK {
				passed.Add(1)
			}
		})
	}
	repeat(func() {
		if line := lineOf(netip.AddrPortFrom(server.Addr(), 7000)); strings.Contains(line, "hello") {
			passed.Add(1)
		}
		dialed.Add(1)
	})
	return func() (int64, int64, int64) {
		close(ended)
		attackers.Wait()
		client.CloseIdleConnections()
		return asked.Load(), dialed.Load(), passed.Load()
	}
}

// lineOf is the answer to a line on a connection of its own, if there is any.
func lineOf(server netip.AddrPort) string {
	conn, err := net.DialTimeout("tcp", server.String(), time.Minute)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "hello\n")
	answer, _ := bufio.NewReader(conn).ReadString('\n')
	return answer
}
