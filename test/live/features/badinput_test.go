package features

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// badMesh has what is to be broken (web, by versions, and a gateway), and what must not notice: the
// service steady.
func badMesh(t *testing.T, o livemesh.Options) *livemesh.Mesh {
	t.Helper()
	return livemesh.StartWith(t, o, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("steady", "v1"), livemesh.Service("steady", "http:80:8080"),
		livemesh.NewEcho("web", "v1"), livemesh.NewEcho("web", "v2"), livemesh.Service("web", "http:80:8080"),
		livemesh.Object("DestinationRule web", `
host: web
subsets:
- name: v1
  labels: {version: v1}
- name: v2
  labels: {version: v2}
`),
		livemesh.Object("VirtualService steady", `
hosts: [steady]
http:
- match: [{uri: {prefix: /steady}}]
  route: [{destination: {host: steady}}]
`)))
}

// runUnderLoad runs a subtest in which something is wrong with the files, under a steady load on
// what is not concerned. In the end all is well again: nothing is reported, and not one request has
// failed.
func runUnderLoad(m *livemesh.Mesh, name string, test func(t *testing.T, m *livemesh.Mesh, load *livemesh.Load)) {
	m.Run(name, "", func(t *testing.T, m *livemesh.Mesh) {
		t.Cleanup(func() { m.DeleteAllBut("base.yaml", "base-lines.yaml") })
		m.RequireNoProblems()
		load := m.Client("client-v1").Load("http://steady/steady")
		load.Advance(5)
		test(t, m, load)
		load.Advance(10)
		m.Settle()
		m.RequireNoProblems()
		load.Advance(5)
		load.Stop()
	})
}

// goodRoutes sends /two to v2 and the rest to v1.
var goodRoutes = `
hosts: [web]
http:
- match: [{uri: {prefix: /two}}]
  route: [` + subset("v2") + `]
- route: [` + subset("v1") + `]
`

func webRoutes(spec string) string { return livemesh.Object("VirtualService web", spec) }

func TestMistakesInManifestsHarmNothingElse(t *testing.T) {
	m := badMesh(t, livemesh.Options{})
	t.Run("not readable", func(t *testing.T) { testUnreadable(t, m.With(t)) })
	t.Run("not valid", func(t *testing.T) { testInvalid(t, m.With(t)) })
	t.Run("not consistent", func(t *testing.T) { testInconsistent(t, m.With(t)) })
}

// testUnreadable is what cannot be read as an object at all: the last valid reading stays in force,
// if there was one.
func testUnreadable(t *testing.T, m *livemesh.Mesh) {
	for _, c := range []struct {
		name, broken string
		problem      []string
	}{
		{"malformed YAML", strings.Replace(webRoutes(goodRoutes), "hosts: [web]", "hosts: [web",
			1), []string{"web.yaml:", "syntax error"}},
		{"an unknown field", strings.Replace(webRoutes(goodRoutes), "  route:", "  rout:", 1),
			[]string{"web.yaml:", "VirtualService default/web", "spec.http[0].rout", "unknown field", "want route"}},
		{"a wrong type", strings.Replace(webRoutes(goodRoutes), "hosts: [web]", "hosts: {a: b}", 1),
			[]string{"web.yaml:", "VirtualService default/web", "spec.hosts"}},
	} {
		runUnderLoad(m, c.name+", new", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
			m.Write("web.yaml", c.broken)
			m.Settle()
			require.NotEmpty(t, m.ProblemsWith(c.problem...), "%v", m.Problems())
			require.True(t, m.Client("client-v1").Get("http://web/two").OK(),
				"the service is there, without routes of its own")
			m.Delete("web.yaml")
		})
		runUnderLoad(m, c.name+", valid before", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
			client := m.Client("client-v1")
			m.Write("web.yaml", webRoutes(goodRoutes))
			m.Settle()
			m.RequireNoProblems()
			m.Write("web.yaml", strings.Replace(c.broken, "subset: v1", "subset: v2", 1))
			m.Settle()
			require.NotEmpty(t, m.ProblemsWith(c.problem...), "%v", m.Problems())
			require.NotEmpty(t, m.ProblemsWith("web.yaml", "last valid reading", "stays in force"), "%v", m.Problems())
			for range 5 {
				requireVersion(t, "v1", client.Get("http://web/"))
				requireVersion(t, "v2", client.Get("http://web/two"))
			}
			m.Write("web.yaml", webRoutes(strings.Replace(goodRoutes, "/two", "/second", 1)))
			m.Settle()
			m.RequireNoProblems()
			requireVersion(t, "v2", client.Get("http://web/second"))
			requireVersion(t, "v1", client.Get("http://web/two"))
			m.Delete("web.yaml")
		})
	}
	runUnderLoad(m, "a duplicate", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
		client := m.Client("client-v1")
		m.Write("a.yaml", webRoutes(goodRoutes))
		m.Write("b.yaml", webRoutes("hosts: [web]\nhttp:\n- directResponse: {status: 418}\n"))
		m.Settle()
		require.NotEmpty(t, m.ProblemsWith("b.yaml:", "VirtualService default/web", "defined twice", "a.yaml:"), "%v",
			m.Problems())
		requireVersion(t, "v2", client.Get("http://web/two"))
		m.Delete("a.yaml")
		m.Settle()
		m.RequireNoProblems()
		requireStatus(t, 418, client.Get("http://web/two"))
		m.Delete("b.yaml")
	})
}

// testInvalid is what reads well and cannot be meant: the part that is wrong is closed, and the
// rest keeps its meaning.
func testInvalid(t *testing.T, m *livemesh.Mesh) {
	for _, c := range []struct {
		name, two string
		problem   []string
	}{
		{
			"a redirect",
			"redirect: {uri: /x, redirectCode: 999}",
			[]string{"spec.http[0].redirect.redirectCode", "999", "301"},
		},
		{"a timeout", "timeout: -1s\n  route: [" + subset("v2") + "]", []string{"spec.http[0].timeout", "-1s"}},
		{"a retry condition", "retries: {attempts: 2, retryOn: sometimes}\n  route: [" + subset("v2") +
			"]", []string{"spec.http[0].retries.retryOn", "sometimes", "5xx"}},
		{"a fault", "fault: {abort: {httpStatus: 99, percentage: {value: 100}}}\n  route: [" + subset("v2") +
			"]", []string{"spec.http[0].fault.abort.httpStatus", "99"}},
		{"a rewrite", `rewrite: {uriRegexRewrite: {match: "(", rewrite: x}}` + "\n  route: [" + subset("v2") +
			"]", []string{"spec.http[0].rewrite.uriRegexRewrite.match", "RE2"}},
	} {
		runUnderLoad(m, "a route with "+c.name, func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
			client := m.Client("client-v1")
			m.Write("web.yaml", webRoutes(strings.Replace(goodRoutes, "route: ["+subset("v2")+"]", c.two, 1)))
			m.Settle()
			require.NotEmpty(t, m.ProblemsWith(append(c.problem, "web.yaml:", "VirtualService default/web")...), "%v",
				m.Problems())
			requireStatus(t, 503, client.Get("http://web/two"))
			requireVersion(t, "v1", client.Get("http://web/"))
			m.Write("web.yaml", webRoutes(goodRoutes))
			m.Settle()
			m.RequireNoProblems()
			requireVersion(t, "v2", client.Get("http://web/two"))
			m.Delete("web.yaml")
		})
	}
	runUnderLoad(m, "a match", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
		client := m.Client("client-v1")
		m.Write("web.yaml", webRoutes(strings.Replace(goodRoutes, "{prefix: /two}", `{regex: "(two"}`, 1)))
		m.Settle()
		require.NotEmpty(t, m.ProblemsWith("web.yaml:", "VirtualService default/web", "spec.http[0].match[0].uri.regex",
			"(two", "RE2"), "%v", m.Problems())
		requireStatus(t, 503, client.Get("http://web/two"))
		m.Write("web.yaml", webRoutes(strings.Replace(goodRoutes, "{prefix: /two}", `{regex: "/\\p{Letter}+"}`, 1)))
		m.Settle()
		require.NotEmpty(t, m.ProblemsWith("spec.http[0].match[0].uri.regex", "Letter", "Envoy does not know"), "%v",
			m.Problems())
		requireStatus(t, 503, client.Get("http://web/two"))
		m.Delete("web.yaml")
	})
	runUnderLoad(m, "a subset", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
		client := m.Client("client-v1")
		m.Write("steady-rule.yaml", livemesh.Object("DestinationRule steady", `
host: steady
subsets:
- {name: good, labels: {version: v1}}
- {name: "bad!", labels: {version: v1}}
`))
		m.Write("subset.yaml", livemesh.Object("VirtualService subset", `
hosts: [subset.test]
http:
- match: [{uri: {prefix: /bad}}]
  route: [{destination: {host: steady, subset: "bad!", port: {number: 80}}}]
- route: [{destination: {host: steady, subset: good, port: {number: 80}}}]
`))
		m.Settle()
		require.NotEmpty(t, m.ProblemsWith("steady-rule.yaml:", "DestinationRule default/steady",
			"spec.subsets[1].name", "bad!"), "%v", m.Problems())
		requireStatus(t, 503, client.Get("http://subset.test/bad"))
		requireVersion(t, "v1", client.Get("http://subset.test/"))
		m.Delete("subset.yaml")
		m.Delete("steady-rule.yaml")
	})
	testInvalidGateway(t, m)
}

func testInvalidGateway(t *testing.T, m *livemesh.Mesh) {
	gateway := func(servers string) string {
		return livemesh.Object("Gateway in", "selector: {istio: ingress}\nservers:"+servers)
	}
	const open, wrong = `
- port: {number: 8080, name: http, protocol: HTTP}
  hosts: [open.test]`, `
- port: {number: 8081, name: secret, protocol: HTTP}
  hosts: ["*"]
  tls: {mode: SIMPLE, credentialName: secret}`
	runUnderLoad(m, "a server of a gateway", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
		routes := livemesh.Object("VirtualService in",
			"hosts: [\"*\"]\ngateways: [in]\nhttp:\n- route: [{destination: {host: steady}}]\n")
		m.Write("in.yaml", gateway(open+wrong)+routes+livemesh.GatewayPod(8080, 8081))
		m.Settle()
		require.NotEmpty(t, m.ProblemsWith("in.yaml:", "Gateway default/in", "spec.servers[1].tls", "closed"), "%v",
			m.Problems())
		require.Error(t, m.Gateway("istio-ingress", 8081).Get("/").Err,
			"what was to be protected is not served in plaintext")
		requireVersion(t, "v1", m.Gateway("istio-ingress", 8080).Get("/", livemesh.Host("open.test")))
		m.Write("in.yaml", gateway(open+strings.Split(wrong, "\n  tls:")[0])+routes+livemesh.GatewayPod(8080, 8081))
		m.Settle()
		m.RequireNoProblems()
		requireVersion(t, "v1", m.Gateway("istio-ingress", 8081).Get("/"))
		m.Delete("in.yaml")
	})
}

// testInconsistent is what is wrong only together with other objects.
func testInconsistent(t *testing.T, m *livemesh.Mesh) {
	runUnderLoad(m, "a missing subset", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
		client := m.Client("client-v1")
		m.Write("web.yaml", webRoutes(strings.Replace(goodRoutes, "subset: v2", "subset: v9", 1)))
		m.Settle()
		require.NotEmpty(t, m.ProblemsWith("web.yaml:", "VirtualService default/web",
			"spec.http[0].route[0].destination.subset", "v9", "one of v1, v2"), "%v", m.Problems())
		requireStatus(t, 503, client.Get("http://web/two"))
		requireVersion(t, "v1", client.Get("http://web/"))
		m.Write("web.yaml", webRoutes(goodRoutes))
		m.Settle()
		m.RequireNoProblems()
		requireVersion(t, "v2", client.Get("http://web/two"))
		m.Delete("web.yaml")
	})
	runUnderLoad(m, "a missing host", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
		client := m.Client("client-v1")
		m.Write("web.yaml", webRoutes(strings.Replace(goodRoutes, "{host: web, subset: v2}", "{host: wep}", 1)))
		m.Settle()
		require.NotEmpty(t, m.ProblemsWith("web.yaml:", "VirtualService default/web",
			"spec.http[0].route[0].destination.host", "wep.default.svc.cluster.local"), "%v", m.Problems())
		requireStatus(t, 503, client.Get("http://web/two"))
		requireVersion(t, "v1", client.Get("http://web/"))
		m.Delete("web.yaml")
	})
}

// making is how long a file of TestUnfinishedFilesDisturbNoTraffic must stand still before it is
// read; five times as long if it has become worse, or is away, and never longer than forty times.
const making = 100 * time.Millisecond

// hand is somebody who is at work on a file. One who pauses for too long has left it, as far as
// anybody can tell.
type hand struct {
	began, last time.Time
	late        bool
}

// does makes the next move, at most so long after the one before.
func (h *hand) does(within time.Duration, move func()) {
	now := time.Now()
	if h.began.IsZero() {
		h.began, h.last = now, now
	}
	move()
	h.late = h.late || time.Since(h.last) > within || time.Since(h.began) > 20*making
	h.last = now
}

// atWork plays a scene until its hand was not late, which on a busy machine it may be.
func atWork(t *testing.T, scene func(h *hand)) {
	t.Helper()
	for range 30 {
		h := &hand{}
		if scene(h); !h.late {
			return
		}
	}
	require.Fail(t, "the machine is too busy")
}

// TestUnfinishedFilesDisturbNoTraffic is about a directory that changes while it is read.
func TestUnfinishedFilesDisturbNoTraffic(t *testing.T) {
	m := badMesh(t, livemesh.Options{FileSettle: making})
	runUnderLoad(m, "a file that is being written", func(t *testing.T, m *livemesh.Mesh, _ *livemesh.Load) {
		client := m.Client("client-v1")
		final := webRoutes("hosts: [web]\nhttp:\n- match: [{uri: {prefix: /x}}]\n  directResponse: {status: 418}\n" +
			"- route: [" + subset("v2") + "]\n")
		atWork(t, func(h *hand) {
			m.Write("web.yaml", webRoutes("hosts: [web]\nhttp:\n- route: ["+subset("v1")+"]\n"))
			m.Settle()
			seen := []string{"v1"}
			ask := func() string {
				answer := outcome(client.Get("http://web/"))
				if answer != seen[len(seen)-1] {
					seen = append(seen, answer)
				}
				return answer
			}
			for end := 0; end < len(final) && !h.late; end += 20 {
				h.does(making, func() {
					require.NoError(t, os.WriteFile(m.Path("web.yaml"), []byte(final[:end]), 0o644))
				})
				ask()
			}
			if h.does(making, func() { m.Write("web.yaml", final) }); h.late {
				return
			}
			m.Await("the new routes", func() bool { return ask() == "v2" })
			require.Equal(t, []string{"v1", "v2"}, seen, "it changes once")
		})
		requireStatus(t, 418, client.Get("http://web/x"))
		m.Delete("web.yaml")
	})
	runUnderLoad(m, "a file that an editor replaces", func(t *testing.T, m *livemesh.Mesh, load *livemesh.Load) {
		client := m.Client("client-v1")
		atWork(t, func(h *hand) {
			m.Write("web.yaml", webRoutes("hosts: [web]\nhttp:\n- directResponse: {status: 418}\n"))
			m.Settle()
			requireStatus(t, 418, client.Get("http://web/"))
			// As an editor keeps a backup.
			h.does(making, func() { require.NoError(t, os.Rename(m.Path("web.yaml"), m.Path("web.yaml~"))) })
			load.Advance(3)
			meanwhile := client.Get("http://web/")
			if h.does(5*making, func() {
				m.Write("web.yaml", webRoutes("hosts: [web]\nhttp:\n- directResponse: {status: 201}\n"))
			}); h.late {
				return
			}
			requireStatus(t, 418, meanwhile)
			m.Await("the new routes", func() bool {
				a := client.Get("http://web/")
				require.Contains(t, []int{418, 201}, a.Status, "%s", a)
				return a.Status == 201
			})
		})
		require.NoError(t, os.Remove(m.Path("web.yaml~")))
		m.Delete("web.yaml")
	})
	runUnderLoad(m, "a directory that vanishes", func(t *testing.T, m *livemesh.Mesh, load *livemesh.Load) {
		client := m.Client("client-v1")
		m.Write("web.yaml", webRoutes(goodRoutes))
		m.Settle()
		away := m.Dir() + ".away"
		require.NoError(t, os.Rename(m.Dir(), away))
		m.AwaitProblem(m.Dir(), "cannot be read", "the last state stays in force")
		load.Advance(20)
		requireVersion(t, "v2", client.Get("http://web/two"))
		requireVersion(t, "v1", client.Get("http://web/"))
		require.NoError(t, os.Rename(away, m.Dir()))
		m.Await("the end of the problem", func() bool { return len(m.Problems()) == 0 })
		m.Write("web.yaml", webRoutes(strings.Replace(goodRoutes, "/two", "/second", 1)))
		m.Settle()
		requireVersion(t, "v2", client.Get("http://web/second"))
		m.Delete("web.yaml")
	})
}
