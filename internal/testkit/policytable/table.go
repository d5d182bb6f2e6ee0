// Package policytable is a table of AuthorizationPolicies and of the calls that they allow and
// refuse, written from Istio's documentation. A test runs it by traffic in a mesh of its own: the
// package makes the policies and says which calls to send, and the test sends them.
//
// Each rule of the table stands in an ALLOW policy of the server "allows", and in a DENY policy of
// the server "denies". A call that the rule matches is let in by the one and refused by the other,
// and a call that it does not match the other way round. Beside them stand policies that decide
// nothing, which would refuse much if they did.
package policytable

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// The callers: Client has the identity cluster.local/ns/default/sa/default, Far the one of
// namespace other, and Plain calls in plaintext, past all other proxies.
const (
	Client = "client"
	Far    = "far"
	Plain  = "plain"
)

// The servers are workloads of the namespace default that answer HTTP at HTTPPort and lines at
// Ports. Their Services, of the same names, have the HTTP port 80, and Ports as they are.
const (
	Allows   = "allows"
	Denies   = "denies"
	HTTPPort = 8080
)

// namespace is that of the servers.
const namespace = "default"

// World is a mesh in which the table runs, with its callers and servers.
type World struct {
	// Workloads has the addresses of all workloads. It need not be masked.
	Workloads netip.Prefix
	// Do sends a request and returns the status; 0 without an answer, which it describes. It has to
	// send method, path and host as they are.
	Do func(Request) (status int, shown string)
	// WithoutHTTP2 leaves out what needs HTTP/2, and paths that HTTP clients do not send.
	WithoutHTTP2 bool
	// Connects reports whether a caller gets a line back from a port of a server.
	Connects func(caller, server string, port int) bool
	// Await waits until something is so.
	Await func(what string, is func() bool)
}

// Request is one request of a caller to a server.
type Request struct {
	Caller, Server string
	Method, Path   string
	// Host is empty where the request names the server.
	Host string
	// HTTP2 is set for a request of HTTP/2; others are of HTTP/1.1. Plain alone sends such.
	HTTP2   bool
	Headers map[string]string
}

// meshConfig has workloads call in mutual TLS, and a trust domain with an alias.
const meshConfig = `
---
apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data: {mesh: "{enableAutoMtls: true, trustDomainAliases: [old.test]}"}
`

// Manifests are the mesh configuration, the Services and the policies. Policies come in an order
// that Run relies on: they have to be applied in it.
func (w World) Manifests() (all []string) {
	all = append(all, meshConfig)
	for _, server := range []string{Allows, Denies} {
		ports := []string{fmt.Sprint("http:80:", HTTPPort)}
		for _, port := range Ports(server) {
			ports = append(ports, fmt.Sprintf("tcp-%d:%d", port, port))
		}
		all = append(all, livemesh.Service(server, ports...))
		all = append(all, undecided(server)...)
	}
	for i, c := range connectionCases() {
		for _, server := range []string{Allows, Denies} {
			rule := strings.ReplaceAll(c.rule, "$p", fmt.Sprint(portOf(server, i)))
			all = append(all, w.policy(server, fmt.Sprint(namespace, "/", server, "-tcp-", i), rule))
		}
	}
	for i, c := range requests() {
		for _, server := range []string{Allows, Denies} {
			all = append(all, w.policy(server, fmt.Sprint(c.namespace, "/", server, "-", segment(i)), c.whole(i)))
		}
	}
	return all
}

// whole is the rule of a case with its path and without the ports of other cases: without a port, a
// DENY about requests refuses all other connections.
func (c requestCase) whole(i int) string {
	rule := c.rule
	if !strings.Contains(rule, "to:") {
		rule = strings.TrimPrefix(rule+`, to: [{operation: {paths: ["/$i/*"]}}]`, ", ")
	}
	if !strings.Contains(rule, "orts:") {
		rule = strings.ReplaceAll(rule, "operation: {", "operation: {notPorts: [$other], ")
	}
	return strings.NewReplacer("$i", segment(i), "$other", otherPorts()).Replace(rule)
}

// policy is the one of a server with a rule.
func (w World) policy(server, name, rule string) string {
	rule = strings.NewReplacer(
		"$net", w.Workloads.Masked().String(), "$unmasked", w.Workloads.String(),
	).Replace(rule)
	action := map[string]string{Allows: "ALLOW", Denies: "DENY"}[server]
	return livemesh.Object("AuthorizationPolicy "+name,
		fmt.Sprintf("selector: {matchLabels: {app: %s}}\naction: %s\nrules: [{%s}]\n", server, action, rule))
}

// undecided are policies of a server that decide nothing: AUDIT of all calls, and dry runs of DENY
// and ALLOW that match the callers of one namespace.
func undecided(server string) []string {
	policy := func(action, rule string) string {
		return livemesh.Object("AuthorizationPolicy "+server+"-"+strings.ToLower(action),
			fmt.Sprintf("selector: {matchLabels: {app: %s}}\naction: %s\nrules: [{%s}]\n", server, action, rule))
	}
	const some = "from: [{source: {namespaces: [default]}}]"
	return []string{
		policy("AUDIT", ""), livemesh.DryRun(policy("DENY", some)), livemesh.DryRun(policy("ALLOW", some)),
	}
}

func segment(i int) string { return fmt.Sprint("c", i) }

// firstPort is the first of the ports of connections: those of Allows, and behind them those of
// Denies.
const firstPort = 7000

// Ports are those where a server answers lines, one for each case on connections.
func Ports(server string) (ports []int) {
	for i := range connectionCases() {
		ports = append(ports, portOf(server, i))
	}
	return ports
}

func portOf(server string, i int) int {
	if server == Denies {
		i += len(connectionCases())
	}
	return firstPort + i
}

// otherPorts are the ports of the cases on connections, as they stand in a list.
func otherPorts() string {
	var list []string
	for _, port := range append(Ports(Allows), Ports(Denies)...) {
		list = append(list, fmt.Sprintf("%q", fmt.Sprint(port)))
	}
	return strings.Join(list, ", ")
}

// leastCalls is how many calls the table has, at least.
const leastCalls = 500

// Run sends the calls of all cases, once the policies that come last are in force. What failed
// tells why the documentation wants it otherwise.
func (w World) Run(t *testing.T) {
	t.Helper()
	w.awaitPolicies()
	calls := 0
	for i, c := range requests() {
		for _, call := range c.calls {
			for _, server := range []string{Allows, Denies} {
				request := requestOf(server, i, call[1:])
				if w.WithoutHTTP2 && (request.HTTP2 || call[0] == '!') {
					continue
				}
				status, shown := w.Do(request)
				assert.NotZero(t, status, "%s: %s: %s", server, call, shown)
				assert.Equal(t, outcome(call[0], server), outcomeOf(status),
					"%s: %s: %s\nin %s: %s", server, c.why, call, c.rule, shown)
				calls++
			}
		}
	}
	for i, c := range connectionCases() {
		for _, caller := range []string{Client, Far, Plain} {
			allowed, denied := strings.Contains(c.allows, caller), strings.Contains(c.denies, caller)
			assert.Equal(t, allowed, w.Connects(caller, Allows, portOf(Allows, i)),
				"allows: %s: %s in %s", c.why, caller, c.rule)
			assert.Equal(t, !denied, w.Connects(caller, Denies, portOf(Denies, i)),
				"denies: %s: %s in %s", c.why, caller, c.rule)
			calls += 2
		}
	}
	assert.GreaterOrEqual(t, calls, leastCalls, "the table has so many calls")
}

// outcome is what a call comes to at a server, by the sign before it.
func outcome(sign byte, server string) string {
	switch {
	case sign == '!':
		return outcomeOf(http.StatusBadRequest)
	case sign == '+' && server == Allows || sign == '-' && server == Denies:
		return outcomeOf(http.StatusOK)
	}
	return outcomeOf(http.StatusForbidden)
}

func outcomeOf(status int) string {
	switch status {
	case http.StatusForbidden:
		return "refused by a policy"
	case http.StatusBadRequest:
		return "malformed"
	}
	return "let in"
}

// awaitPolicies waits until the last policy is in force at both servers. Those before it are then,
// too: a proxy gets all policies of a generation at once.
func (w World) awaitPolicies() {
	last := len(requests()) - 1
	status := func(server, caller string, at int) int {
		status, _ := w.Do(requestOf(server, at, caller))
		return status
	}
	for _, caller := range []string{Client, Far, Plain} {
		w.Await("the last ALLOW policy is in force", func() bool {
			// Without any policy everything is allowed.
			return status(Allows, caller, last) == http.StatusOK &&
				status(Allows, caller, last+1) == http.StatusForbidden
		})
		w.Await("the last DENY policy is in force", func() bool {
			return status(Denies, caller, last) == http.StatusForbidden &&
				status(Denies, caller, last+1) == http.StatusOK
		})
	}
}

// requestOf is the request of a call of a case.
func requestOf(server string, i int, call string) Request {
	fields := strings.Fields(call)
	r := Request{Caller: fields[0], Server: server, Method: http.MethodGet, Headers: map[string]string{}}
	path := "/x"
	for _, f := range fields[1:] {
		name, value, isHeader := strings.Cut(f, "=")
		switch {
		case strings.HasPrefix(f, "/"): // a path may have "="
			path = f
		case f == "h2":
			r.HTTP2 = true
		case !isHeader:
			r.Method = f
		case name == "host":
			r.Host = value
		default:
			r.Headers[name] = value
		}
	}
	r.Path = "/" + segment(i) + path
	return r
}
