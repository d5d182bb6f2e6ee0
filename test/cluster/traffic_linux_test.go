package cluster

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestPodsServeTrafficThroughRedirection runs all scenarios on one cluster, one after the other:
// those that break things come last.
func TestPodsServeTrafficThroughRedirection(t *testing.T) {
	c := start(t)
	c.apply(t,
		echo("client", "v1", 1, "node=node-a"),
		echo("server", "v1", 1, "--tcp=9000", "--tcp=9001", "node=node-a"),
		echo("server", "v2", 1, "--tcp=9000", "node=node-a"),
		livemesh.Service("server", "http:80:8080"),
	)
	c.ready(t, "client-v1", "server-v1", "server-v2")
	for _, scenario := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"Routes", routes}, {"Ports", ports}, {"Headless", headless}, {"Addresses", addresses},
		{"ExternalIPs", externalIPs},
		{"Hints", hints}, {"Outside", outside}, {"HeadlessTLS", headlessTLS},
		{"HeadlessStrangers", headlessStrangers}, {"HeadlessMutualTLS", headlessMutualTLS},
		{"DNS", namesWithoutAddress},
		{"Bookinfo", bookinfo},
		{"Metrics", standardMetrics},
		{"MutualTLS", mutualTLS}, {"Injected", injected}, {"SeesCallers", seesCallers},
		{"Machine", machines},
		{"Namespaces", namespaces},
		{"RequestPolicies", requestPolicies}, {"PolicyTable", policyTable},
		{"RollingUpdate", rollingUpdate}, {"APIServerAway", apiServerAway}, {"KilledPod", killedPod},
		{"LostNode", lostNode},
	} {
		t.Run(scenario.name, func(t *testing.T) { scenario.run(t, c) })
	}
}

const serverSubsets = `{host: server, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}`

// routes are what a VirtualService can do to requests, each case with its own.
func routes(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	c.apply(t, livemesh.Object("DestinationRule server", serverSubsets))
	for name, test := range map[string]struct {
		http  string // of the VirtualService, an item of a list
		check func(t *testing.T)
	}{
		"subset": {`{route: [{destination: {host: server, subset: v2}}]}`, func(t *testing.T) {
			w.until(t, "http://server/", "only v2", again(30, w, "http://server/", version("v2")))
		}},
		"weights": {`{route: [{destination: {host: server, subset: v1}, weight: 90}, {destination: {host: server, ` +
			`subset: v2}, weight: 10}]}`, func(t *testing.T) {
			// Of 400, outside of 10 to 80 by chance once in 10^6 times.
			w.until(t, "http://server/", "one in ten from v2", func(answer) bool {
				n := 0
				for range 400 {
					if version("v2")(w.get("http://server/")) {
						n++
					}
				}
				return n >= 10 && n <= 80
			})
		}},
		"header": {"{match: [{headers: {end-user: {exact: jason}}}], route: [{destination: {host: server, subset: " +
			"v2}}]}\n- {route: [{destination: {host: server, subset: v1}}]}", func(t *testing.T) {
			w.until(t, "http://server/", "v1", again(20, w, "http://server/", version("v1")))
			w.until(t, "http://server/", "v2", again(20, w, "http://server/", version("v2"), "end-user: jason"),
				"end-user: jason")
		}},
		"abort": {`{fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, route: [{destination: {host: ` +
			`server}}]}`, func(t *testing.T) {
			w.until(t, "http://server/", "418", status(http.StatusTeapot))
		}},
		"delay": {`{fault: {delay: {fixedDelay: 300ms, percentage: {value: 100}}}, route: [{destination: {host: ` +
			`server}}]}`, func(t *testing.T) {
			w.until(t, "http://server/", "a late answer", func(a answer) bool {
				return ok(a) && a.took >= 300*time.Millisecond
			})
		}},
		"timeout": {`{timeout: 200ms, route: [{destination: {host: server}}]}`, func(t *testing.T) {
			w.until(t, "http://server/delay/5000", "504", status(http.StatusGatewayTimeout))
		}},
		"retries": {`{retries: {attempts: 3, retryOn: 5xx}, route: [{destination: {host: server, subset: ` +
			`v1}}]}`, func(t *testing.T) {
			url := "http://server/fail?ratio=0.5"
			w.until(t, url, "answers, though every other one is a failure", again(30, w, url, ok))
		}},
		"redirect": {`{redirect: {uri: /elsewhere, redirectCode: 302}}`, func(t *testing.T) {
			a := w.until(t, "http://server/", "302", status(http.StatusFound))
			require.Equal(t, "http://server/elsewhere", a.header.Get("Location"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c.apply(t, livemesh.Object("VirtualService server", "hosts: [server]\nhttp:\n- "+test.http))
			test.check(t)
		})
	}
}

func status(code int) func(answer) bool { return func(a answer) bool { return a.status == code } }

// again tells whether an answer is as wanted, and n more.
func again(n int, w *workload, url string, is func(answer) bool, headers ...string) func(answer) bool {
	return func(a answer) bool {
		for i := 0; i < n && is(a); i++ {
			a = w.get(url, headers...)
		}
		return is(a)
	}
}

// lines is who answers a line at an address, by the echo's version; empty for nobody.
func (w *workload) lines(t *testing.T, address string) string {
	t.Helper()
	return w.answerer(t, address, []byte("hello"))
}

// answerer is who answers a line, whatever bytes it has.
func (w *workload) answerer(t *testing.T, address string, line []byte) string {
	t.Helper()
	conn, err := w.dial(t.Context(), "tcp", address)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return ""
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(answer, " ")
	return version
}

func (w *workload) untilLines(t *testing.T, address, version string) {
	t.Helper()
	w.c.await(t, address+" is answered by "+version, func() bool { return w.lines(t, address) == version })
}

// ports tells TCP services on one port apart by their addresses, and HTTP from other bytes where a
// port does not say.
func ports(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	c.apply(t,
		livemesh.Selecting(space, "lines-a", "app: server, version: v1", "tcp:3306:9000"),
		livemesh.Selecting(space, "lines-b", "app: server, version: v2", "tcp:3306:9000"),
		livemesh.Selecting(space, "unsaid", "app: server, version: v1", "any:7000:8080", "lines:7001:9000"),
	)
	w.untilLines(t, "lines-a:3306", "v1")
	w.untilLines(t, "lines-b:3306", "v2")
	w.untilLines(t, "unsaid:7001", "v1")
	w.until(t, "http://unsaid:7000/", "an answer", ok)

	t.Run("requests at a port that does not say are routed", func(t *testing.T) {
		c.apply(t, livemesh.Object("VirtualService unsaid", "hosts: [unsaid]\nhttp:\n"+
			"- {fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, route: [{destination: {host: unsaid}}]}"))
		w.until(t, "http://unsaid:7000/", "418", status(http.StatusTeapot))
		w.untilLines(t, "unsaid:7001", "v1")
	})
	t.Run("connections are routed", func(t *testing.T) {
		c.apply(t, livemesh.Object("VirtualService lines",
			"hosts: [lines-a]\ntcp:\n- {route: [{destination: {host: lines-b}}]}"))
		w.untilLines(t, "lines-a:3306", "v2")
	})
}

// headless services are called by the addresses of their pods.
func headless(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	c.apply(t, livemesh.Selecting(space, "each", "app: server", "http:8080", "tcp:9000")+"  clusterIP: None\n")
	for _, p := range c.pods(t, "app=server") {
		w.until(t, "http://"+p.Status.PodIP+":8080/", p.Name, answeredBy(p.Name), "Host: each")
		w.untilLines(t, p.Status.PodIP+":9000", p.Labels["version"])
	}
	a := w.until(t, "http://each:8080/", "an answer", ok)
	require.Equal(t, "each:8080", a.echoed.Host)
}

func answeredBy(pod string) func(answer) bool {
	return func(a answer) bool { return ok(a) && a.echoed.Hostname == pod }
}

// addresses of pods can be called without a service, at ports that no service names too, and a
// workload can call itself.
func addresses(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	server := c.pods(t, "app=server,version=v1")[0]
	w.until(t, "http://"+server.Status.PodIP+":8080/", server.Name, answeredBy(server.Name))
	w.untilLines(t, server.Status.PodIP+":9001", "v1")
	itself := c.from(t, "app=server,version=v1")
	itself.until(t, "http://server/", "itself", answeredBy(server.Name))
	itself.until(t, "http://"+server.Status.PodIP+":8080/", "itself", answeredBy(server.Name))
	for _, own := range []int{15001, 15006} { // no loop: closed, though it can be connected to
		a := w.get(fmt.Sprintf("http://%s:%d/", server.Status.PodIP, own))
		require.Zero(t, a.status, a)
	}
}

// externalIPs are addresses of a service beside its cluster IP, which nobody but the mesh knows
// here.
func externalIPs(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	const address = "192.0.2.7"
	with := func(service string) string { return service + "  externalIPs: [" + address + "]\n" }
	c.apply(t,
		with(livemesh.Selecting(space, "shown", "app: server, version: v2", "http:80:8080", "lines:9100:9000")),
		with(livemesh.Selecting(space, "shown-too", "app: server, version: v1", "lines:9101:9000")),
	)
	w.until(t, "http://"+address+"/", "v2", again(20, w, "http://"+address+"/", version("v2")))
	w.untilLines(t, address+":9100", "v2")
	w.untilLines(t, address+":9101", "v1")
	c.apply(t, livemesh.Selecting(space, "shown", "app: server, version: v2", "http:80:8080", "lines:9100:9000")+
		"  externalIPs: []\n")
	w.untilLines(t, address+":9100", "")
	w.untilLines(t, address+":9101", "v1")
}

// hints are the zones that EndpointSlices name as those whose callers an endpoint is for.
func hints(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	_, err := c.client.CoreV1().Nodes().Patch(t.Context(), "node-a", types.MergePatchType,
		[]byte(`{"metadata": {"labels": {"topology.kubernetes.io/zone": "here"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	service := strings.Replace(livemesh.Selecting(space, "hinted", "", "http:80:8080"),
		"metadata: {", "metadata: {annotations: {service.kubernetes.io/topology-mode: Auto}, ", 1)
	v1, v2 := c.pods(t, "app=server,version=v1")[0], c.pods(t, "app=server,version=v2")[0]
	slice := func(hints1, hints2 string) string {
		return fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: hinted-1, namespace: %s, labels: {kubernetes.io/service-name: hinted}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [%s], targetRef: {kind: Pod, name: %s, namespace: %s}%s}
- {addresses: [%s], targetRef: {kind: Pod, name: %s, namespace: %s}%s}
`, space, v1.Status.PodIP, v1.Name, space, hints1, v2.Status.PodIP, v2.Name, space, hints2)
	}
	forZone := func(zone string) string { return ", hints: {forZones: [{name: " + zone + "}]}" }
	only := func(v string) { w.until(t, "http://hinted/", "only "+v, again(30, w, "http://hinted/", version(v))) }

	c.apply(t, service, slice(forZone("here"), forZone("there")))
	only("v1")
	c.apply(t, slice(forZone("there"), forZone("here")))
	only("v2")
	c.apply(t, slice(forZone("there"), ""))
	w.until(t, "http://hinted/", "v1, as hints that one lacks do not count", version("v1"))
	w.until(t, "http://hinted/", "v2", version("v2"))
}

// outside is what the mesh does not know, until a ServiceEntry says so.
func outside(t *testing.T, c *cluster) {
	w := c.from(t, "app=client")
	c.apply(t, bare(echo("outside", "v1", 1, "--port=80", "--tcp=9100")))
	c.ready(t, "outside-v1")
	ip := netip.MustParseAddr(c.pods(t, "app=outside")[0].Status.PodIP)
	c.names.Add("api.example.com", ip)
	c.names.Add("other.example.com", ip)
	w.until(t, "http://other.example.com/", "an answer: unknown hosts are called as they are", ok)
	w.untilLines(t, "other.example.com:9100", "v1")

	// Another name takes the requests for it. Connections that are no requests go where they would:
	// they may be for anybody.
	server := c.pods(t, "app=server,version=v1")[0]
	c.names.Add("server.example.com", netip.MustParseAddr(server.Status.PodIP))
	c.apply(t, externalName("lines-elsewhere", "nowhere.example.com", "tcp:9100", "unsaid:9101"),
		externalName("alias", "server.example.com", "http:80:8080"))
	w.until(t, "http://other.example.com/", server.Name, answeredBy(server.Name), "Host: alias")
	require.Equal(t, "v1", w.lines(t, "other.example.com:9100"))

	c.apply(t, livemesh.Object("Sidecar default", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}"),
		livemesh.Object("ServiceEntry api",
			"hosts: [api.example.com]\nresolution: DNS\nports: [{number: 80, name: http, protocol: HTTP}]"))
	w.until(t, "http://other.example.com/", "502", status(http.StatusBadGateway))
	c.await(t, "an unknown port is closed", func() bool {
		return w.lines(t, net.JoinHostPort("other.example.com", "9100")) == ""
	})
	w.until(t, "http://api.example.com/", "an answer", ok)
	w.until(t, "http://server/", "an answer", ok)
}

// externalName is a Service that is another name of something.
func externalName(name, of string, ports ...string) string {
	return livemesh.Selecting(space, name, "", ports...) + "  type: ExternalName\n  externalName: " + of + "\n"
}

// bare is a Deployment without sidecars.
func bare(manifest string) string {
	return strings.Replace(manifest, "metadata: {labels: {", `metadata: {labels: {sidecar.istio.io/inject: "false", `,
		1)
}

// bookinfo is called through a gateway; each part calls the next by a short name.
func bookinfo(t *testing.T, c *cluster) {
	c.apply(t,
		deployment("productpage-v1", "productpage", "v1", 1, []string{"--role=productpage", "--port=9080"}),
		deployment("details-v1", "details", "v1", 1, []string{"--role=details", "--port=9080"}),
		deployment("ratings-v1", "ratings", "v1", 1, []string{"--role=ratings", "--port=9080"}),
		deployment("reviews-v1", "reviews", "v1", 1, []string{"--role=reviews", "--version=v1", "--port=9080"}),
		deployment("reviews-v3", "reviews", "v3", 1, []string{"--role=reviews", "--version=v3", "--port=9080"}),
		livemesh.Service("productpage", "http:9080"), livemesh.Service("details", "http:9080"),
		livemesh.Service("ratings", "http:9080"),
		livemesh.Service("reviews", "http:9080"), livemesh.GatewayPod(8080),
		livemesh.Object("Gateway bookinfo",
			"selector: {istio: ingress}\nservers:\n- {port: {number: 8080, name: http, protocol: HTTP}, hosts: ['*']}"),
		livemesh.Object("VirtualService bookinfo", "hosts: ['*']\ngateways: [bookinfo]\nhttp:\n"+
			"- {match: [{uri: {exact: /productpage}}], route: [{destination: {host: productpage}}]}"),
		livemesh.Object("DestinationRule reviews",
			"{host: reviews, subsets: [{name: v1, labels: {version: v1}}, {name: v3, labels: {version: v3}}]}"),
		livemesh.Object("VirtualService reviews",
			"hosts: [reviews]\nhttp:\n- {route: [{destination: {host: reviews, subset: v3}}]}"),
	)
	c.ready(t, "productpage-v1", "details-v1", "ratings-v1", "reviews-v1", "reviews-v3", "istio-ingress")
	// From a workload without a sidecar, as from outside.
	c.apply(t, bare(echo("browser", "v1", 1)))
	c.ready(t, "browser-v1")
	browser := c.from(t, "app=browser")
	page := "http://" + c.pods(t, "istio=ingress")[0].Status.PodIP + ":8080/productpage"
	browser.until(t, page, "a page with red stars", again(20, browser, page, shows(true)))
	c.apply(t, livemesh.Object("VirtualService reviews",
		"hosts: [reviews]\nhttp:\n- {route: [{destination: {host: reviews, subset: v1}}]}"))
	browser.until(t, page, "a page without stars", again(20, browser, page, shows(false)))
	c.from(t, "istio=ingress").until(t, "http://127.0.0.1:8080/productpage", "a page, as by kubectl port-forward",
		shows(false))
}

// shows tells whether an answer is a whole page, with or without stars.
func shows(stars bool) func(answer) bool {
	return func(a answer) bool {
		return ok(a) && strings.Contains(a.body, "Shakespeare") && strings.Contains(a.body, "twins") &&
			strings.Contains(a.body, "★") == stars &&
			!strings.Contains(a.body, "not available")
	}
}
