package features

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// span is one that a receiver got.
type span struct {
	trace, id, parent string
	name, kind        string
	service           string
	tags              map[string]string
}

// called reports whether the span is of a call of a path.
func (s span) called(path string) bool { return strings.HasSuffix(s.tags["http.url"], path) }

// spans are those that a receiver got.
type spans struct {
	mu  sync.Mutex
	all []span
}

func (s *spans) add(one span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// find returns those that a condition is true for.
func (s *spans) find(is func(span) bool) []span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.all), func(one span) bool { return !is(one) })
}

// of returns the spans of one trace.
func (s *spans) of(trace string) []span {
	return s.find(func(one span) bool { return one.trace == trace })
}

// lines of descent: for each span that is no parent, "canonical service KIND" from the root to it.
func descent(trace []span) []string {
	byID, parents := map[string]span{}, map[string]bool{}
	for _, s := range trace {
		byID[s.id], parents[s.parent] = s, true
	}
	lines := map[string]bool{}
	for _, s := range trace {
		if parents[s.id] {
			continue
		}
		var line []string
		for known := true; known; s, known = byID[s.parent] {
			line = append(line, s.tags["istio.canonical_service"]+" "+s.kind)
		}
		slices.Reverse(line)
		lines[strings.Join(line, " > ")] = true
	}
	return slices.Sorted(maps.Keys(lines))
}

// bookinfo is the example with a client, without its gateway and rules.
func bookinfo(t *testing.T) string {
	t.Helper()
	files := livemesh.File("client.yaml", livemesh.NewEcho("client", "v1"))
	for _, name := range []string{"productpage", "details", "reviews", "ratings"} {
		text, err := os.ReadFile("../../../examples/bookinfo/" + name + ".yaml")
		require.NoError(t, err)
		files += livemesh.File(name+".yaml", string(text))
	}
	return files
}

// withTracing is a mesh configuration with a provider of traces.
func withTracing(provider string) string {
	return livemesh.File("mesh.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    defaultProviders: {tracing: [spans]}
    extensionProviders:
    - name: spans
      `+provider+"\n")
}

func telemetryFor(name, spec string) string {
	return livemesh.File(name+".yaml", livemesh.Object("Telemetry "+name, spec))
}

// Who calls whom in the example, where reviews have stars.
var wholePage = []string{
	"client CLIENT > productpage SERVER > productpage CLIENT > details SERVER",
	"client CLIENT > productpage SERVER > productpage CLIENT > reviews SERVER > reviews CLIENT > ratings SERVER",
}

// page gets the example's page in a trace of its own, by headers that force that, until
// the spans of the trace are as they should be. Not all versions of reviews call ratings.
func page(m *livemesh.Mesh, s *spans, headers func(trace string) livemesh.Option, want []string) (trace string) {
	client, n, tried, seen := m.Client("client-v1"), 0, []string(nil), []string(nil)
	m.Await(fmt.Sprintf("a trace with %q", want), func() bool {
		if n++; n%10 == 1 { // spans come within a second
			one := fmt.Sprintf("4bf92f3577b34da6%016x", time.Now().UnixNano())
			if client.Get("http://productpage:9080/productpage", headers(one)).Status == 200 {
				tried = append(tried, one)
			}
		}
		for _, trace = range tried {
			if seen = descent(s.of(trace)); slices.Equal(seen, want) {
				return true
			}
		}
		return false
	})
	return trace
}

// forced has the first proxy trace a request, whatever its percentage is. The headers of a trace
// alone do not: Envoy's tracers take "sampled" from a client only for requests that are chosen.
const forced = "x-client-trace-id"

func w3c(trace string) livemesh.Option {
	return func(r *http.Request) {
		r.Header.Set(forced, trace)
		r.Header.Set("traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	}
}

func b3(trace string) livemesh.Option {
	return func(r *http.Request) {
		r.Header.Set(forced, trace)
		r.Header.Set("x-b3-traceid", trace)
		r.Header.Set("x-b3-spanid", "00f067aa0ba902b7")
		r.Header.Set("x-b3-sampled", "1")
	}
}

// TestSpansOfBookinfo has a receiver of OpenTelemetry. Who called whom is in the spans, and
// Telemetries say how many there are and what they hold.
func TestSpansOfBookinfo(t *testing.T) {
	c := newCollector(t)
	provider := fmt.Sprintf("opentelemetry: {service: collector.test, port: %d}", c.port)
	m := livemesh.Start(t, bookinfo(t)+withTracing(provider)+
		livemesh.File("collector.yaml", grpcEntry("collector", c.port)))
	m.RequireNoProblems()
	trace := page(m, &c.spans, w3c, wholePage)
	for _, s := range c.of(trace) {
		require.Equal(t, s.tags["istio.canonical_service"]+".default", s.service, "service.name")
		require.Equal(t, "default", s.tags["istio.namespace"])
		require.NotEmpty(t, s.tags["istio.canonical_revision"])
		named := `^(productpage|details|reviews|ratings)\.default\.svc\.cluster\.local/\*$`
		if s.kind == "SERVER" { // in plaintext nobody tells it
			named = `^\*:9080/\*$`
		}
		require.Regexp(t, named, s.name)
	}

	client := m.Client("client-v1")
	m.Run("all requests are sampled", telemetryFor("all", `
selector: {matchLabels: {app: client}}
tracing:
- randomSamplingPercentage: 100
  customTags:
    fixed: {literal: {value: always}}
    tenant: {header: {name: x-tenant, defaultValue: none}}
    form: {formatter: {value: "%REQ(:METHOD)% %RESPONSE_CODE%"}}
`), func(t *testing.T, m *livemesh.Mesh) {
		requireStatus(t, 200, client.Get("http://details:9080/details/7", livemesh.Header("x-tenant", "blue")))
		requireStatus(t, 200, client.Get("http://details:9080/details/8"))
		found := func(path, tenant string) func() bool {
			return func() bool {
				return len(c.find(func(s span) bool {
					return s.called(path) && s.kind == "CLIENT" && s.tags["tenant"] == tenant &&
						s.tags["fixed"] == "always" && s.tags["form"] == "GET 200"
				})) == 1
			}
		}
		m.Await("a span with the tenant", found("/details/7", "blue"))
		m.Await("a span without a tenant", found("/details/8", "none"))
		m.Await("the span of who was called, because its caller says so", func() bool {
			return len(c.find(func(s span) bool {
				return s.called("/details/8") && s.kind == "SERVER" && s.tags["fixed"] == ""
			})) == 1
		})
	})
	m.Run("no request is sampled", telemetryFor("none", `
tracing: [{randomSamplingPercentage: 0}]
`), func(t *testing.T, m *livemesh.Mesh) {
		client := m.Client("client-v1") // connections keep the listener that they came by
		for range 50 {
			requireStatus(t, 200, client.Get("http://details:9080/details/404"))
		}
		page(m, &c.spans, w3c, wholePage) // later spans have come
		require.Empty(t, c.find(func(s span) bool { return s.called("/details/404") && s.kind == "CLIENT" }))
	})
	m.Run("a workload reports no spans", telemetryFor("silent", `
selector: {matchLabels: {app: productpage}}
tracing: [{disableSpanReporting: true}]
`), func(_ *testing.T, m *livemesh.Mesh) {
		page(m, &c.spans, w3c, []string{
			"client CLIENT > details SERVER", "client CLIENT > reviews SERVER > reviews CLIENT > ratings SERVER",
		})
	})
}

// zipkinAPI is a Zipkin of which only the way in is there.
func zipkinAPI(t *testing.T) (s *spans, port int) {
	t.Helper()
	s = &spans{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var all []struct {
			TraceID, ID, ParentID, Kind, Name string
			LocalEndpoint                     struct{ ServiceName string }
			Tags                              map[string]string
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &all)
		}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/api/v2/spans" {
			http.Error(w, "want spans in JSON at /api/v2/spans", http.StatusBadRequest)
			return
		}
		for _, one := range all {
			s.add(span{
				trace: one.TraceID, id: one.ID, parent: one.ParentID, kind: one.Kind, name: one.Name,
				service: one.LocalEndpoint.ServiceName, tags: one.Tags,
			})
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	return s, server.Listener.Addr().(*net.TCPAddr).Port
}

// httpEntry is a ServiceEntry for NAME.test, a receiver by HTTP.
func httpEntry(name string, port int) string {
	return livemesh.Object("ServiceEntry "+name, fmt.Sprintf(`
hosts: [%s.test]
ports: [{number: %d, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: 127.0.0.1}]
`, name, port))
}

// TestSpansReachZipkin has Zipkin's API as receiver.
func TestSpansReachZipkin(t *testing.T) {
	s, port := zipkinAPI(t)
	m := livemesh.Start(t, bookinfo(t)+withTracing(fmt.Sprintf("zipkin: {service: zipkin.test, port: %d}", port))+
		livemesh.File("zipkin.yaml", httpEntry("zipkin", port)))
	m.RequireNoProblems()
	trace := page(m, s, b3, wholePage)
	for _, one := range s.of(trace) {
		require.NotEmpty(t, one.service)
		require.Equal(t, "200", one.tags["http.status_code"])
	}
}

// TestPodsStateHowTheirCallsAreTraced: the annotation of a Pod says that all its calls are traced,
// with a tag of its own.
func TestPodsStateHowTheirCallsAreTraced(t *testing.T) {
	s, port := zipkinAPI(t)
	own := strings.Replace(livemesh.NewEcho("own", "v1").String(), "metadata: {labels:",
		`metadata: {annotations: {proxy.istio.io/config: "tracing: {sampling: 100, customTags: {from: {literal: `+
			`{value: pod}}}}"}, labels:`, 1)
	m := livemesh.Start(t, withTracing(fmt.Sprintf("zipkin: {service: zipkin.test, port: %d}", port))+
		livemesh.File("base.yaml", own, livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
			httpEntry("zipkin", port)))
	m.RequireNoProblems()
	const calls = 20
	for range calls {
		requireStatus(t, 200, m.Client("own-v1").Get("http://web/"))
	}
	m.Await("a span of each call", func() bool {
		return len(s.find(func(one span) bool { return one.kind == "CLIENT" && one.tags["from"] == "pod" })) == calls
	})
}

// TestTracersThatAreAwayDelayNothing has receivers that refuse, do not answer, and that nobody
// knows. A Telemetry that names no provider traces nothing and says so.
func TestTracersThatAreAwayDelayNothing(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	port := silent.Addr().(*net.TCPAddr).Port
	m := livemesh.Start(t, livemesh.File("mesh.yaml", fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: istio, namespace: istio-system}
data:
  mesh: |
    extensionProviders:
    - {name: refusing, opentelemetry: {service: refusing.test, port: 9}}
    - {name: silent, zipkin: {service: silent.test, port: %d}}
    - {name: absent, opentelemetry: {service: absent.test, port: 80}}
`, port))+livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.NewEcho("web", "v1"), livemesh.Service("web", "http:80:8080"),
		grpcEntry("refusing", 9), grpcEntry("silent", port),
	))
	for _, provider := range []string{"refusing", "silent", "absent", "unknown"} {
		m.Run(provider, telemetryFor("traces", `
tracing: [{providers: [{name: `+provider+`}], randomSamplingPercentage: 100}]
`), func(t *testing.T, m *livemesh.Mesh) {
			if provider == "unknown" {
				m.AwaitProblem("spec.tracing[0].providers[0].name", "is no provider of extensionProviders")
			}
			client := m.Client("client-v1")
			for range 100 {
				requireStatus(t, 200, client.Get("http://web/"))
			}
		})
	}
}
