package cluster

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/internal/testkit/policytable"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

// policyTable runs the table of AuthorizationPolicies, with a caller of another namespace and one
// without a sidecar.
func policyTable(t *testing.T, c *cluster) {
	other := c.in(t, "other")
	var table policytable.World
	table.Workloads = netip.PrefixFrom(podnet.Gateway, podnet.Prefix.Bits())
	c.apply(t, table.Manifests()...)
	for _, server := range []string{policytable.Allows, policytable.Denies} {
		args := []string{"--version=v1", fmt.Sprint("--port=", policytable.HTTPPort)}
		for _, port := range policytable.Ports(server) {
			args = append(args, fmt.Sprint("--tcp=", port))
		}
		c.apply(t, ofMesh(deployment(server, server, "v1", 1, args)))
	}
	c.apply(t, bare(echo("plain", "v1", 1)))
	other.apply(t, echo("far", "v1", 1))
	c.ready(t, policytable.Allows, policytable.Denies, "plain-v1")
	other.ready(t, "far-v1")
	callsOfTable(t, c, other, &table)
	table.Run(t)
	t.Run("DryRunMetrics", func(t *testing.T) { dryRunMetrics(t, c) })
}

// dryRunMetrics are what the dry runs beside the table are counted as, in what a Prometheus gets
// from the agent of a server: by what they are about, what they are, and what they would do.
func dryRunMetrics(t *testing.T, c *cluster) {
	text, answers := c.agentPage(t, c.pods(t, "app="+policytable.Allows)[0], "/stats/prometheus")
	require.True(t, answers)
	counted := strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool {
		return !strings.Contains(line, "authz_dry_run")
	}), "\n")
	for _, action := range []string{"deny", "allow"} {
		for _, result := range []string{"denied", "allowed"} {
			labels := fmt.Sprintf("authz_dry_run_action=%q,authz_dry_run_result=%q,", action, result)
			for _, metric := range []string{
				`envoy_http_rbac{` + labels + `http_conn_manager_prefix="inbound_0.0.0.0_8080"}`,
				`envoy_tcp{` + labels + `tcp_prefix="rbac.istio_dry_run_` + action + `_"}`,
			} {
				assert.Regexp(t, "(?m)^"+regexp.QuoteMeta(metric)+" [1-9]", counted)
			}
		}
	}
}

// callsOfTable has the calls of the table made by Pods of two namespaces.
func callsOfTable(t *testing.T, c, other *cluster, table *policytable.World) {
	callers := map[string]*workload{
		policytable.Client: c.from(t, "app=client"),
		policytable.Far:    other.from(t, "app=far"),
		policytable.Plain:  c.from(t, "app=plain"),
	}
	// Without a sidecar a workload calls Pods: a Service's address is the sidecar's business here.
	pods := map[string]string{}
	for _, server := range []string{policytable.Allows, policytable.Denies} {
		pods[server] = c.pods(t, "app="+server)[0].Status.PodIP
	}
	table.Do = func(r policytable.Request) (int, string) {
		base, host := "http://"+r.Server+".default", cmp.Or(r.Host, r.Server+".default")
		if r.Caller == policytable.Plain {
			base = fmt.Sprintf("http://%s:%d", pods[r.Server], policytable.HTTPPort)
		}
		headers := []string{"Host: " + host}
		for name, value := range r.Headers {
			headers = append(headers, name+": "+value)
		}
		a := callers[r.Caller].do(r.Method, base+r.Path, headers...)
		return a.status, a.String()
	}
	table.WithoutHTTP2 = true // the callers send HTTP/1.1
	table.Connects = func(caller, server string, port int) bool {
		host := server + ".default"
		if caller == policytable.Plain {
			host = pods[server]
		}
		return callers[caller].lines(t, fmt.Sprintf("%s:%d", host, port)) == "v1"
	}
	table.Await = func(what string, is func() bool) { c.await(t, what, is) }
}

// ofMesh labels the Pods of a Deployment, so that callers use mutual TLS.
func ofMesh(manifest string) string {
	const before = "metadata: {labels: {"
	return strings.Replace(manifest, before, before+"security.istio.io/tlsMode: istio, ", 1)
}

// requestPolicies are rules about requests where a server cannot know by its own configuration that
// a port speaks HTTP: callers in TLS of the mesh say it (ALPN). First on a port that no service
// names, then on one that does not say what it speaks, which takes bytes too.
func requestPolicies(t *testing.T, c *cluster) {
	c.apply(t, ofMesh(deployment("vault", "vault", "v1", 1, []string{"--version=v1", "--port=8080", "--tcp=9100"})))
	c.ready(t, "vault")
	w := c.from(t, "app=client")
	address := net.JoinHostPort(c.pods(t, "app=vault")[0].Status.PodIP, "8080")
	asks := func(path string, status int) func() bool {
		return func() bool { return w.requestOfMesh(t, address, path) == status }
	}
	c.await(t, "a request is answered before there is a policy", asks("/", http.StatusOK))
	c.await(t, "it is counted as a request", func() bool {
		text, _ := c.agentPage(t, c.pods(t, "app=vault")[0], "/stats/prometheus")
		return regexp.MustCompile(`istio_requests_total{[^}]*reporter="destination"`).MatchString(text)
	})
	c.apply(t, vaultDenies("/silver"))
	plain := func(path string, is int) func() bool {
		return func() bool { return w.get("http://"+address+path).status == is }
	}
	c.await(t, "a request in plaintext is denied on an undeclared port", plain("/silver", http.StatusForbidden))
	c.await(t, "another one is not", plain("/", http.StatusOK))
	editsOnOneConnection(t, c, w, address)
	c.apply(t,
		livemesh.Object("PeerAuthentication vault", "selector: {matchLabels: {app: vault}}\nmtls: {mode: STRICT}"),
		vaultDenies("/gold"))
	c.await(t, "a request is denied on an undeclared port", asks("/gold", http.StatusForbidden))
	c.await(t, "another one is not", asks("/", http.StatusOK))

	c.apply(t, livemesh.Object("Service vault", `
selector: {app: vault}
ports: [{name: a, port: 80, targetPort: 8080}, {name: b, port: 9100}]
`))
	// Bytes come first: each try is a new connection, so the listener of the service is there for
	// the requests after it, which keep theirs.
	c.await(t, "a port that does not say what it speaks takes bytes", func() bool {
		return w.echoesAt(t, "vault", "9100")
	})
	w.until(t, "http://vault/gold", "denied on a port that does not say what it speaks", status(http.StatusForbidden))
	w.until(t, "http://vault/", "answered there", ok)
}

// vaultDenies is a policy of the vault that denies requests for a path.
func vaultDenies(path string) string {
	return livemesh.Object("AuthorizationPolicy vault", `
selector: {matchLabels: {app: vault}}
action: DENY
rules: [{to: [{operation: {paths: [`+path+`], ports: ["8080"]}}]}]
`)
}

// editsOnOneConnection edits the paths of a policy while a connection to the vault stays open. Each
// edit is in force for requests on that connection, which the server's proxy does not close.
func editsOnOneConnection(t *testing.T, c *cluster, w *workload, address string) {
	conn := w.connectOfMesh(t, address)
	require.NotNil(t, conn)
	defer func() { _ = conn.Close() }()
	asks := func(path string, status int) func() bool {
		return func() bool {
			got := conn.ask(path)
			require.NotZero(t, got, "the connection is closed")
			return got == status
		}
	}
	c.await(t, "the policy is in force on a connection", asks("/silver", http.StatusForbidden))
	require.True(t, asks("/copper", http.StatusOK)())
	c.apply(t, vaultDenies("/copper"))
	c.await(t, "an edit denies on a connection that is open", asks("/copper", http.StatusForbidden))
	require.True(t, asks("/silver", http.StatusOK)())
	c.apply(t, vaultDenies("/silver"))
	c.await(t, "another edit allows on it", asks("/copper", http.StatusOK))
	require.True(t, asks("/silver", http.StatusForbidden)())
}

// requestOfMesh asks in TLS of the mesh, as a proxy does for requests, and returns the status; 0
// without an answer.
func (w *workload) requestOfMesh(t *testing.T, address, path string) int {
	t.Helper()
	conn := w.connectOfMesh(t, address)
	if conn == nil {
		return 0
	}
	defer func() { _ = conn.Close() }()
	return conn.ask(path)
}

// meshConnection is a connection for requests in TLS of the mesh.
type meshConnection struct {
	net.Conn
	answers *bufio.Reader
}

// connectOfMesh connects as a proxy does for requests. It returns nil if nobody listens.
func (w *workload) connectOfMesh(t *testing.T, address string) *meshConnection {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), askFor)
	defer cancel()
	conn, err := w.pod.Dial(ctx, "tcp", address)
	if err != nil {
		return nil
	}
	secure := tls.Client(conn, &tls.Config{ //nolint:gosec // who answers is not what is tested
		Certificates: []tls.Certificate{w.c.certificate(t)}, InsecureSkipVerify: true,
		NextProtos: []string{"istio-http/1.1"},
	})
	return &meshConnection{secure, bufio.NewReader(secure)}
}

// askFor is how long a request in TLS of the mesh may take.
const askFor = 5 * time.Second

// ask returns the status of an answer; 0 without one.
func (c *meshConnection) ask(path string) int {
	_ = c.SetDeadline(time.Now().Add(askFor))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: vault\r\n\r\n", path); err != nil {
		return 0
	}
	response, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return 0
	}
	return response.StatusCode
}
