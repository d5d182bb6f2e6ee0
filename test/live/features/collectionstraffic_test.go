package features

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestCollectionsAndVirtualHostsChangeWithoutFailures is what endpoints as collections and tables
// as virtual hosts come to, for those who call: subsets, places, health and route tables change,
// proxies lose their streams and start anew, and no request fails or reaches an endpoint that it
// should not.
func TestCollectionsAndVirtualHostsChangeWithoutFailures(t *testing.T) {
	c := newCrowd(t, 420)
	m := livemesh.StartWith(t, livemesh.Options{Unready: true}, callerAt("eu/eu-1"))
	m.Run("subsets", "", c.testSubsets)
	m.Run("places", "", c.testPlaces)
	m.Run("health", "", c.testHealth)
	m.Run("tables that come and go", "", testTables)
}

// callerAt has a client on a node somewhere, and a gateway.
func callerAt(place string) string {
	return livemesh.File("client.yaml", livemesh.Node("n1", place), livemesh.NewEcho("client", "v1").On("n1"),
		livemesh.Service("client", "http:80:8080"),
		livemesh.GatewayPod(8080, 8081))
}

// all has the crowd's addresses for which the condition holds.
func (c *crowd) all(from, to int, holds func(i int) bool) []string {
	var all []string
	for i := from; i < to; i++ {
		if holds(i) {
			all = append(all, c.address(i)+":"+c.ports[i])
		}
	}
	slices.Sort(all)
	return all
}

// reaches requires that calls reach those that they may, and no others.
func reaches(t *testing.T, m *livemesh.Mesh, url string, may []string) {
	t.Helper()
	got := m.With(t).Client("client-v1").Tally(40, url, func(a livemesh.Answer) string {
		requireStatus(t, 200, a)
		return a.Echoed.Hostname
	})
	for address := range got {
		require.Contains(t, may, address)
	}
}

// restart ends a workload's Envoy without warning, and waits for the next one.
func restart(t *testing.T, m *livemesh.Mesh, workload string) {
	t.Helper()
	before, pid := m.Proxy(workload).ConnectionID, envoyOf(m.Pod(workload))
	kill(t, m.Pod(workload), "istio-proxy")
	m.AwaitPods(workload, func(pods []local.PodStatus) bool {
		return len(pods) == 1 && pods[0].Ready && envoyOf(pods[0]) != pid
	})
	m.Settle()
	m.Await("the stream of before is gone", func() bool { return m.Proxy(workload).ConnectionID != before })
}

// envoyOf is the process id of a pod's Envoy.
func envoyOf(p local.PodStatus) int {
	i := slices.IndexFunc(p.Processes, func(s local.ProcessStatus) bool { return s.Name == "istio-proxy" })
	return p.Processes[max(i, 0)].PID
}

func (c *crowd) testSubsets(t *testing.T, m *livemesh.Mesh) {
	parity := func(v int) func(i int) bool { return func(i int) bool { return i%2 == v } }
	labels := func(i int) string { return fmt.Sprintf(", labels: {version: v%d}", i%2) }
	moved := func(i int) string { // 0 is of the other subset
		return labels(max(i, 1))
	}
	subsets := "host: crowd.test\nsubsets: [{name: v0, labels: {version: v0}}, {name: v1, labels: {version: v1}}]\n"
	m.Apply(c.entry(0, 420, labels) + rule("crowd", subsets) + virtual("crowd", `
hosts: [crowd.test]
http:
- match: [{uri: {prefix: /0}}]
  route: [{destination: {host: crowd.test, subset: v0}}]
- match: [{uri: {prefix: /1}}]
  route: [{destination: {host: crowd.test, subset: v1}}]
- route: [{destination: {host: crowd.test}}]
`))
	t.Cleanup(func() { m.DeleteAllBut("client.yaml") })
	var loads []*livemesh.Load
	for v := range 2 {
		loads = append(loads, m.Client("client-v1").Load("http://crowd.test/"+strconv.Itoa(v)))
	}
	subset := func(v int) []string { return hostsOf(m, "client-v1", fmt.Sprintf("outbound|80|v%d|crowd.test", v)) }
	check := func(from, to int) {
		t.Helper()
		m.Settle()
		for v := range 2 {
			may := c.all(from, to, parity(v))
			require.Equal(t, may, subset(v))
			reaches(t, m, fmt.Sprintf("http://crowd.test/%d", v), may)
		}
		require.Equal(t, c.addresses(from, to), hostsOf(m, "client-v1", "outbound|80||crowd.test"))
	}
	check(0, 420)
	m.Apply(c.entry(0, 420, moved))
	require.NotContains(t, subset(0), c.all(0, 1, parity(0))[0])
	require.Contains(t, subset(1), c.all(0, 1, parity(0))[0])
	m.Apply(c.entry(0, 150, labels)) // the subsets are lists, the service is not
	check(0, 150)
	m.Apply(c.entry(0, 420, labels))
	check(0, 420)
	m.Apply(rule("crowd", subsets+"trafficPolicy: {connectionPool: {http: {maxRetries: 9}}}\n"))
	m.Apply(c.entry(2, 420, labels))
	check(2, 420)
	requireUndisturbed(t, m, "client-v1", "leds")
	m.Cut()
	check(2, 420)
	for _, l := range loads {
		l.Stop()
	}
	restart(t, m, "client-v1")
	check(2, 420)
	m.Apply(c.entry(4, 420, labels))
	check(4, 420)
	requireUndisturbed(t, m, "client-v1", "leds")
}

func (c *crowd) testPlaces(t *testing.T, m *livemesh.Mesh) {
	place := func(i int) string {
		if i < 205 {
			return ", locality: eu/eu-1"
		}
		return ", locality: us/us-1"
	}
	m.Apply(c.entry(0, 420, place) +
		rule("crowd", "host: crowd.test\ntrafficPolicy: {outlierDetection: {consecutive5xxErrors: 100}}\n"))
	t.Cleanup(func() { m.DeleteAllBut("client.yaml") })
	load := m.Client("client-v1").Load("http://crowd.test/")
	check := func(from, to int) {
		t.Helper()
		m.Settle()
		require.Equal(t, c.addresses(from, to), hostsOf(m, "client-v1", "outbound|80||crowd.test"))
		near := c.addresses(from, min(to, 205))
		if len(near) == 0 {
			near = c.addresses(from, to)
		}
		reaches(t, m, "http://crowd.test/", near)
	}
	check(0, 420)
	m.Apply(c.entry(200, 420, place))
	check(200, 420)
	m.Apply(c.entry(205, 420, place)) // nobody near
	check(205, 420)
	m.Cut()
	m.Apply(c.entry(203, 415, place))
	check(203, 415)
	m.Apply(callerAt("us/us-1"))
	reaches(t, m, "http://crowd.test/", c.addresses(205, 415))
	m.Apply(callerAt("eu/eu-1"))
	check(203, 415)
	load.Stop()
	requireUndisturbed(t, m, "client-v1", "leds")
}

// slices is a Service without a selector, and its endpoints in EndpointSlices; state says of each
// what its conditions are.
func (c *crowd) slices(from, to int, state func(i int) string) string {
	parts := []any{
		"\n---\napiVersion: v1\nkind: Service\nmetadata: {name: throng}\nspec: {ports: [{name: http, port: 80}]}\n",
	}
	for i := from; i < to; i++ { // each has a port of its own, which is a slice's
		parts = append(parts, fmt.Sprintf(`
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: throng-%d, labels: {kubernetes.io/service-name: throng}}
addressType: IPv4
ports: [{name: http, port: %s}]
endpoints: [{addresses: [%s], conditions: {%s}}]
`, i, c.ports[i], c.address(i), state(i)))
	}
	return livemesh.File("throng.yaml", parts...)
}

func (c *crowd) testHealth(t *testing.T, m *livemesh.Mesh) {
	const ready, unready, draining = "ready: true", "ready: false", "ready: false, serving: true, terminating: true"
	of := func(sick func(i int) bool, state string) func(i int) string {
		return func(i int) string {
			if sick(i) {
				return state
			}
			return ready
		}
	}
	const cluster = "outbound|80||throng.default.svc.cluster.local"
	is := func(sick func(i int) bool) func(i int) bool { return func(i int) bool { return !sick(i) } }
	none := func(int) bool { return false }
	third := func(i int) bool { return i%3 == 0 }
	most := func(i int) bool { return i >= 200 }
	m.Apply(c.slices(0, 210, of(none, ready)))
	t.Cleanup(func() { m.DeleteAllBut("client.yaml") })
	load := m.Client("client-v1").Load("http://throng/")
	for _, step := range []struct {
		what  string
		sick  func(int) bool
		state string
		flag  string
	}{
		{"all are well", none, ready, ""},
		{"a third is not ready", third, unready, "failed_eds_health"},
		{"a third drains", third, draining, "eds_status_draining"},
		{"ten drain", most, draining, "eds_status_draining"},
		{"all are well again", none, ready, ""},
	} {
		m.Apply(c.slices(0, 210, of(step.sick, step.state)))
		require.Equal(t, c.addresses(0, 210), hostsOf(m, "client-v1", cluster), step.what)
		require.Equal(t, c.all(0, 210, step.sick), flagged(m, cluster, step.flag), step.what)
		reaches(t, m, "http://throng/", c.all(0, 210, is(step.sick)))
	}
	m.Cut()
	m.Apply(c.slices(0, 205, of(third, unready)))
	require.Equal(t, c.all(0, 205, third), flagged(m, cluster, "failed_eds_health"))
	load.Stop()
	requireUndisturbed(t, m, "client-v1", "leds")
}

// flagged are the addresses of a cluster's endpoints with a flag of Envoy's, sorted.
func flagged(m *livemesh.Mesh, cluster, flag string) []string {
	var all []string
	for line := range strings.Lines(m.Admin("client-v1", "/clusters")) {
		parts := strings.Split(strings.TrimSpace(line), "::")
		if len(parts) == 4 && parts[0] == cluster && parts[2] == "health_flags" && flag != "" &&
			strings.Contains(parts[3], flag) {
			all = append(all, parts[1])
		}
	}
	slices.Sort(all)
	return all
}

func testTables(t *testing.T, m *livemesh.Mesh) {
	gateway := func(port int, answer string) string {
		name := fmt.Sprint("table-", port)
		return livemesh.File(name+".yaml", livemesh.Object("Gateway "+name, fmt.Sprintf(`
selector: {istio: ingress}
servers:
- port: {number: %d, name: http-%d, protocol: HTTP}
  hosts: ["*"]
`, port, port)), livemesh.Object("VirtualService "+name, fmt.Sprintf(`
hosts: [steady.test, %s.test]
gateways: [%s]
http:
- directResponse: {status: 200, body: {string: %s}}
`, answer, name, answer)))
	}
	get := func(port uint16, host string) livemesh.Answer {
		return m.Gateway("istio-ingress", port).Get("/", livemesh.Host(host))
	}
	m.Apply(gateway(8080, "first") + gateway(8081, "one"))
	t.Cleanup(func() { m.DeleteAllBut("client.yaml") })
	load := m.Gateway("istio-ingress", 8080).Load("/", livemesh.Host("steady.test"))
	require.Equal(t, "one", get(8081, "one.test").Body)
	for i, answer := range []string{"two", "three"} {
		m.Delete("table-8081.yaml")
		m.Settle()
		require.Error(t, get(8081, "steady.test").Err)
		if i == 1 {
			m.Cut()
		}
		m.Apply(gateway(8080, answer) + gateway(8081, answer))
		for _, port := range []uint16{8080, 8081} {
			require.Equal(t, answer, get(port, "steady.test").Body)
			require.Equal(t, answer, get(port, answer+".test").Body)
			requireStatus(t, 404, get(port, "one.test"))
		}
	}
	load.Stop()
	requireUndisturbed(t, m, "istio-ingress", "vhds")
	restart(t, m, "istio-ingress")
	require.Equal(t, "three", get(8080, "steady.test").Body)
	require.Equal(t, "three", get(8081, "steady.test").Body)
	requireUndisturbed(t, m, "istio-ingress", "vhds")
}

// requireUndisturbed requires of Envoy's own account that it took some of a form, refused none, and
// never gave up waiting for one.
func requireUndisturbed(t *testing.T, m *livemesh.Mesh, workload, form string) {
	t.Helper()
	sums := map[string]int{}
	for line := range strings.Lines(m.Admin(workload, "/stats")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.Atoi(value); err == nil && strings.Contains(name, "."+form+".") { // some are texts
			sums[name[strings.LastIndexByte(name, '.')+1:]] += n
		}
	}
	require.NotZero(t, sums["update_success"], "%v", sums)
	require.Zero(t, sums["update_rejected"], "%v", sums)
	require.Zero(t, sums["init_fetch_timeout"], "%v", sums)
}
