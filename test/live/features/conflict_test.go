package features

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// contest is a key that two objects claim: which answers a caller sees, and what the loser is told.
type contest struct {
	name string
	// before comes before after in the total order, by its name.
	before, after string
	// ask is what a caller gets: seen when before has the key, other when after has it alone.
	ask         func(m *livemesh.Mesh) string
	seen, other string
	// told is what the problem of the loser says: its key and the winner's among it.
	told []string
	// with stands beside the two all the time.
	with string
	// kinds tells that kinds decide: a creation time does not change sides.
	kinds bool
}

// TestFirstClaimantHasAContestedKey is about each key that more than one object may claim: the
// total order decides, whoever came first; the loser is told, and takes over when the winner goes.
// All of it under a steady load on what is not concerned.
func TestFirstClaimantHasAContestedKey(t *testing.T) {
	m := badMesh(t, livemesh.Options{})
	m.Apply(livemesh.File("base-lines.yaml",
		livemesh.NewEcho("lines", "v1").TCP(7000), livemesh.NewEcho("lines", "v2").TCP(7000),
	))
	for _, c := range contests() {
		c.run(m)
	}
}

// run lets the two come in both orders, go, and swap their ages.
func (c contest) run(m *livemesh.Mesh) {
	runUnderLoad(m, c.name, func(t *testing.T, m *livemesh.Mesh, load *livemesh.Load) {
		has := func(want string) {
			t.Helper()
			m.Settle()
			for range 5 {
				require.Equal(t, want, c.ask(m))
			}
			load.Advance(2)
		}
		m.Write("two.yaml", c.after)
		m.Write("with.yaml", c.with)
		has(c.other)
		m.RequireNoProblems()
		m.Write("one.yaml", c.before)
		has(c.seen)
		require.NotEmpty(t, m.ProblemsWith(append([]string{"two.yaml:"}, c.told...)...),
			"the later one came first, and lost: %v", m.Problems())

		m.Delete("two.yaml")
		has(c.seen)
		m.RequireNoProblems()
		m.Write("two.yaml", c.after)
		has(c.seen)
		require.Len(t, m.ProblemsWith(c.told...), 1, "%v", m.Problems())

		if !c.kinds {
			m.Write("one.yaml", created(c.before))
			has(c.other)
			require.NotEmpty(t, m.ProblemsWith("one.yaml:"), "a younger one loses to one of unknown age: %v",
				m.Problems())
			m.Write("two.yaml", created(created(c.after)))
			has(c.other)
		}
		m.Delete("one.yaml")
		has(c.other)
		m.RequireNoProblems()
		m.Delete("with.yaml")
		m.Delete("two.yaml")
	})
}

// created states a creation time; doing it again states an earlier one.
func created(manifest string) string {
	const later, earlier = `creationTimestamp: "2024-01-02T00:00:00Z", `, `creationTimestamp: "2024-01-01T00:00:00Z", `
	if strings.Contains(manifest, later) {
		return strings.ReplaceAll(manifest, later, earlier)
	}
	return strings.ReplaceAll(manifest, "metadata: {", "metadata: {"+later)
}

// asks is a caller that calls a URL, and gives who answered, or the status.
func asks(url string, options ...livemesh.Option) func(*livemesh.Mesh) string {
	return func(m *livemesh.Mesh) string { return outcome(m.Client("client-v1").Get(url, options...)) }
}

func outcome(a livemesh.Answer) string {
	if a.OK() {
		return a.Echoed.Version
	}
	return fmt.Sprint(a.Status)
}

// says is a caller that sends a line to a TCP port.
func says(port uint16) func(*livemesh.Mesh) string {
	return func(m *livemesh.Mesh) string {
		answer, err := line(m, "client-v1", port, "hello")
		if err != nil {
			return "closed"
		}
		return answer
	}
}

// saysTo is a caller that sends a line to a port of a workload, as the callers' sidecars do.
func saysTo(workload string, port uint16) func(*livemesh.Mesh) string {
	return func(m *livemesh.Mesh) string {
		conn, err := net.Dial("tcp", netip.AddrPortFrom(m.Pod(workload).Pod, port).String())
		if err != nil {
			return "closed"
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprint(conn, "hello\r\n\r\n")
		answer, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(answer)
	}
}

// entryOf is a ServiceEntry for a host that leads to the lines of a version.
func entryOf(name, host, version string) string {
	return livemesh.Object("ServiceEntry "+name, fmt.Sprintf(`
hosts: [%s]
ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]
resolution: STATIC
workloadSelector: {labels: {app: lines, version: %s}}
`, host, version))
}

func linesOf(name, version string, ports ...string) string {
	return livemesh.Selecting("default", name, "app: lines, version: "+version, ports...)
}

func contests() []contest {
	answers := func(name, host string, status int) string {
		return livemesh.Object("VirtualService "+name,
			fmt.Sprintf("hosts: [%s]\nhttp:\n- directResponse: {status: %d}\n", host, status))
	}
	sidecar := func(name, hosts string) string {
		return livemesh.Object("Sidecar "+name,
			"egress: [{hosts: ["+hosts+"]}]\noutboundTrafficPolicy: {mode: REGISTRY_ONLY}\n")
	}
	service := linesOf("contested", "v1", "http:80:8080")
	rule := func(name, spec string) string {
		return livemesh.Object("DestinationRule "+name, "host: contested\n"+spec)
	}
	return []contest{
		{
			name:   "a host: two ServiceEntries",
			before: entryOf("a", "contested.test", "v1"),
			after:  entryOf("b", "contested.test", "v2"),
			ask:    asks("http://contested.test/"), seen: "v1", other: "v2",
			told: []string{"ServiceEntry default/b", "spec.hosts", "contested.test", "ServiceEntry default/a"},
		},
		{
			name:   "a host: a Service comes before a ServiceEntry",
			before: linesOf("z", "v1", "http:80:8080"),
			after:  entryOf("a", "z.default.svc.cluster.local", "v2"),
			ask:    asks("http://z.default.svc.cluster.local/"), seen: "v1", other: "v2", kinds: true,
			told: []string{"ServiceEntry default/a", "spec.hosts", "z.default.svc.cluster.local", "Service default/z"},
		},
		{
			name:   "routes: two VirtualServices",
			before: answers("a", "contested", 418),
			after:  answers("b", "contested.default.svc.cluster.local", 404),
			with:   service,
			ask:    asks("http://contested/"), seen: "418", other: "404",
			told: []string{
				"VirtualService default/b",
				"spec.hosts",
				"contested.default.svc.cluster.local",
				"VirtualService default/a",
			},
		},
		{
			name:   "a subset: two DestinationRules",
			before: rule("a", "subsets: [{name: s, labels: {version: v1}}]\n"),
			after:  rule("b", "subsets: [{name: s, labels: {version: v2}}]\n"),
			with: livemesh.Selecting("default", "contested", "app: lines", "http:80:8080") +
				livemesh.Object("VirtualService s",
					"hosts: [contested]\nhttp:\n- route: [{destination: {host: contested, subset: s}}]\n"),
			ask: asks("http://contested/"), seen: "v1", other: "v2",
			told: []string{
				"DestinationRule default/b",
				"spec.subsets",
				"contested.default.svc.cluster.local",
				"DestinationRule default/a",
			},
		},
		{
			name:   "a policy: two DestinationRules",
			before: rule("a", "trafficPolicy: {tls: {mode: DISABLE}}\n"),
			after:  rule("b", "trafficPolicy: {tls: {mode: SIMPLE}}\n"),
			with:   service,
			ask:    asks("http://contested/"), seen: "v1", other: "503",
			told: []string{
				"DestinationRule default/b",
				"spec.trafficPolicy",
				"contested.default.svc.cluster.local",
				"DestinationRule default/a",
			},
		},
		{
			name:   "a TCP port: two services",
			before: linesOf("a", "v1", "tcp:9000:7000"),
			after:  linesOf("b", "v2", "tcp:9000:7000"),
			ask:    says(9000), seen: "v1 hello", other: "v2 hello",
			told: []string{"Service default/b", "spec.ports", "9000", "a.default.svc.cluster.local"},
		},
		{
			name:   "a port of workloads: HTTP and TCP",
			before: linesOf("a", "v1", "http:9001:7000"),
			after:  linesOf("b", "v1", "tcp:9000:7000"),
			ask:    saysTo("lines-v1", 7000), seen: "HTTP/1.1 400 Bad Request", other: "v1 hello",
			told: []string{"Service default/b", "spec.ports", "9000", "7000", "as TCP", "Service default/a", "as HTTP"},
		},
		{
			name:   "workloads: two Sidecars of a namespace",
			before: sidecar("a", `"./steady.default.svc.cluster.local"`),
			after:  sidecar("b", `"*/*"`),
			with:   service,
			ask:    asks("http://contested/"), seen: "502", other: "v1",
			told: []string{"Sidecar default/b", "spec.workloadSelector", "Sidecar default/a"},
		},
	}
}

// TestUncontestedKeysAreNotReported is about what looks contested, and is not: it goes side by
// side, and nothing is reported.
func TestUncontestedKeysAreNotReported(t *testing.T) {
	m := badMesh(t, livemesh.Options{})
	m.Apply(livemesh.File("base-lines.yaml",
		livemesh.NewEcho("lines", "v1").TCP(7000), livemesh.NewEcho("lines", "v2").TCP(7000),
		livemesh.GatewayPod(8080),
	))
	side := func(name, manifests string, test func(t *testing.T, m *livemesh.Mesh)) {
		runUnderLoad(m, name, func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
			m.Write("side.yaml", manifests)
			m.Settle()
			test(t, m)
			m.DeleteAllBut("base.yaml", "base-lines.yaml")
		})
	}
	side("HTTP and TCP at one port", linesOf("a", "v1", "http:80:8080")+linesOf("b", "v2", "tcp:80:7000"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			require.Equal(t, "v1", asks("http://a/")(m))
			require.Equal(t, "v2 hello", says(80)(m))
		})
	side("DestinationRules that add to each other", linesOf("a", "v1", "http:80:8080")+
		livemesh.Object("DestinationRule a", "host: a\nsubsets: [{name: one, labels: {version: v1}}]\n")+
		livemesh.Object("DestinationRule b",
			"host: a\ntrafficPolicy: {tls: {mode: DISABLE}}\nsubsets: [{name: two, labels: {version: v1}}]\n")+
		livemesh.Object("VirtualService a", "hosts: [a]\nhttp:\n- match: [{uri: {prefix: /one}}]\n"+
			"  route: [{destination: {host: a, subset: one}}]\n- route: [{destination: {host: a, subset: two}}]\n"),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			require.Equal(t, "v1", asks("http://a/one")(m))
			require.Equal(t, "v1", asks("http://a/two")(m))
		})
	side("the HTTP proxy port", linesOf("a", "v1", "tcp:15080:7000"), func(t *testing.T, m *livemesh.Mesh) {
		require.NotEmpty(t, m.ProblemsWith("Service default/a", "15080", "HTTP proxy port"), "%v", m.Problems())
		require.Equal(t, "v1", asks("http://steady/steady")(m), "the proxy port is the proxy's")
	})
	side("a short name that is somebody's own", linesOf("z", "v1", "http:80:8080")+entryOf("e", "z.default", "v2"),
		func(t *testing.T, m *livemesh.Mesh) {
			require.NotEmpty(t, m.ProblemsWith("ServiceEntry default/e", "z.default",
				"short name of Service default/z"), "%v", m.Problems())
			require.Equal(t, "v2", asks("http://z.default/")(m))
			require.Equal(t, "v1", asks("http://z/")(m))
			m.Write("side.yaml", linesOf("z", "v1", "http:80:8080"))
			m.Settle()
			m.RequireNoProblems()
			require.Equal(t, "v1", asks("http://z.default/")(m))
		})
	testSharedServer(t, m, side)
}

// testSharedServer is about Gateways that claim one port and host: they are merged.
func testSharedServer(_ *testing.T, m *livemesh.Mesh, side func(string, string, func(*testing.T, *livemesh.Mesh))) {
	server := func(name, more string) string {
		return livemesh.Object("Gateway "+name, "selector: {istio: ingress}\nservers:\n"+
			"- port: {number: 8080, name: http, protocol: HTTP}\n  hosts: [both.test]\n"+more)
	}
	routes := func(name string, status int) string {
		return livemesh.Object("VirtualService "+name, fmt.Sprintf(`
hosts: [both.test]
gateways: [%s]
http:
- match: [{uri: {prefix: /%s}}]
  route: [{destination: {host: steady}}]
- directResponse: {status: %d}
`, name, name, status))
	}
	get := func(m *livemesh.Mesh, path string) string {
		return outcome(m.Gateway("istio-ingress", 8080).Get(path, livemesh.Host("both.test")))
	}
	side("Gateways with one port and host", server("a", "")+server("b", "")+routes("a", 418)+routes("b", 404),
		func(t *testing.T, m *livemesh.Mesh) {
			m.RequireNoProblems()
			require.Equal(t, "v1", get(m, "/a"))
			require.Equal(t, "v1", get(m, "/b"), "what takes everything comes last, as in istiod")
			require.Equal(t, "418", get(m, "/"), "the first takes the rest")
			m.Write("side.yaml", server("b", "")+routes("a", 418)+routes("b", 404))
			m.Settle()
			require.NotEmpty(t, m.ProblemsWith("VirtualService default/a", "spec.gateways[0]", "default/a"), "%v",
				m.Problems())
			require.Equal(t, "404", get(m, "/a"))
			require.Equal(t, "v1", get(m, "/b"))
		})
	side("Gateways of which one redirects", server("a", "")+server("b", "  tls: {httpsRedirect: true}\n")+
		routes("a", 418), func(t *testing.T, m *livemesh.Mesh) {
		require.Equal(t, "301", get(m, "/a"), "what one wants protected, none serves in plaintext")
		m.Write("side.yaml", server("a", "")+routes("a", 418))
		m.Settle()
		require.Equal(t, "v1", get(m, "/a"))
	})
	side("Gateways of which one cannot be opened", server("a", "")+strings.Replace(server("b",
		"  tls: {mode: SIMPLE, credentialName: x}\n"), "protocol: HTTP", "protocol: HTTPS", 1)+routes("a", 418),
		func(t *testing.T, m *livemesh.Mesh) {
			require.NotEmpty(t, m.ProblemsWith("Gateway default/b", "spec.servers[0].port", "for another protocol"),
				"%v", m.Problems())
			require.Equal(t, "v1", get(m, "/a"), "the other server is open")
		})
}
