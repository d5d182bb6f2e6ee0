package change

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// kept is what stays of the file extra.yaml: a rule with one subset. It is no beginning of extra: a
// file that was cut keeps what it lacks.
const kept = subsets + `  - name: kept
    labels:
      app: one
`

const subsets = `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: one
spec:
  host: one
  subsets:
`

// extra is what goes away while nobody watches: another subset; a service with a route at the
// gateway; and a service that has a TCP listener. Their Deployment has no sidecar, so that no Envoy
// has it for its own; it tells, on the screen, that the mesh has seen it go.
const extra = subsets + `  - name: extra
    labels:
      app: one
  - name: kept
    labels:
      app: one
---
apiVersion: v1
kind: Service
metadata:
  name: extra
spec:
  selector:
    app: extra
  ports:
  - name: http
    port: 9080
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: extra
spec:
  hosts: ["*"]
  gateways: [zero]
  http:
  - match:
    - uri:
        prefix: /extra
    route:
    - destination:
        host: extra
---
apiVersion: v1
kind: Service
metadata:
  name: extra-lines
spec:
  selector:
    app: extra
  ports:
  - name: tcp
    port: 9500
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: extra
spec:
  selector:
    matchLabels:
      app: extra
  template:
    metadata:
      labels:
        app: extra
        sidecar.istio.io/inject: "false"
    spec:
      containers:
      - name: extra
        image: lateen/sample
        args: ["--port=9080", "--tcp=9500"]
        ports:
        - containerPort: 9080
        - containerPort: 9500
`

// extraClusters are those of extra that a pod's Envoy has. A gateway has no TCP services.
func extraClusters(pod string) []string {
	clusters := []string{
		"outbound|9080|extra|one.default.svc.cluster.local", "outbound|9080||extra.default.svc.cluster.local",
	}
	if isGateway(pod) {
		return clusters
	}
	return append(clusters, "outbound|9500||extra-lines.default.svc.cluster.local")
}

func isGateway(pod string) bool { return strings.HasPrefix(pod, "ingressgateway-") }

// TestRestartedControlPlaneSendsOnlyWhatChanged kills the control plane and looks at what the next
// one sends to Envoys that have everything: nothing, or what was removed meanwhile and no more.
func TestRestartedControlPlaneSendsOnlyWhatChanged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "zero")
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "zero"))))
	m := &mesh{t: t, dir: dir}
	m.write("extra.yaml", extra)
	m = start(t, dir, "--separate-control-plane", "--log-level", "debug", "--log-format", "json")
	m.requireSettled()
	before, envoys := m.holdings(), m.envoys()
	require.Len(t, envoys, 10)
	require.Len(t, before, len(envoys))
	dumps := m.dumps(envoys)
	removals := 0
	for pod := range envoys {
		for _, cluster := range extraClusters(pod) {
			require.Contains(t, dumps[pod], "cluster "+cluster)
			removals++
		}
	}
	m.requireExtra(t, true)

	mark := m.screen.mark()
	require.NoError(t, syscall.Kill(m.controlPlane(), syscall.SIGKILL))
	m.screen.await(t, mark, `control-plane: ready`)
	await(t, "all Envoys are back and have what they had", func() bool {
		return maps.EqualFunc(before, m.holdings(), maps.Equal)
	})
	for _, r := range m.responses() {
		require.Empty(t, append(r.Resources, r.Removed...), "%s to %s", r.Type, r.Proxy)
	}
	for _, operation := range []string{"sent", "removed"} {
		require.Zero(t, m.metric(`lateen_xds_resources_total`, `operation="`+operation+`"`), operation)
	}
	require.Equal(t, dumps, m.dumps(envoys), "no Envoy has taken anything anew")

	m.writeWhileDown("extra.yaml", kept, `default/extra-\S+: leaving`)
	m.screen.await(t, mark, `default/extra-\S+: stopped`)
	await(t, "all Envoys are back without what was removed", func() bool {
		return len(m.holdings()) == len(envoys) &&
			m.metric(`lateen_xds_resources_total`, `type="cds"`, `operation="removed"`) >= float64(removals)
	})
	m.requireSettled()
	m.requireOnlyRemovals(t, dumps, envoys)
	m.requireExtra(t, false)
}

// writeWhileDown writes a file, and waits until the mesh tells what follows from it, while there is
// no control plane: one that comes back too early is killed again.
func (m *mesh) writeWhileDown(file, content, told string) {
	m.t.Helper()
	mark := m.screen.mark()
	ready := func(lines []string) (n int) {
		for _, l := range lines {
			if strings.Contains(l, "control-plane: ready") {
				n++
			}
		}
		return n
	}
	kill := func() {
		if pid, runs := m.findControlPlane(); runs {
			require.NoError(m.t, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	kill()
	m.write(file, content)
	await(m.t, "the mesh sees "+file, func() bool {
		kill()
		return len(m.screen.matches(mark, told)) > 0
	})
	kill()
	already := ready(m.screen.since(mark))
	m.screen.until(m.t, mark, "the control plane to be back", func(lines []string) bool {
		return ready(lines) > already
	})
}

// requireOnlyRemovals looks at what the newest control plane has sent, and at what each Envoy made
// of it.
func (m *mesh) requireOnlyRemovals(t *testing.T, before map[string]map[string]string, envoys map[string]string) {
	t.Helper()
	removed, sent := map[string][]string{}, map[string][]string{}
	for _, r := range m.responses() {
		removed[r.Proxy+" "+r.Type] = append(removed[r.Proxy+" "+r.Type], r.Removed...)
		sent[r.Proxy+" "+r.Type] = append(sent[r.Proxy+" "+r.Type], r.Resources...)
	}
	after := m.dumps(envoys)
	for pod, address := range envoys {
		proxy := pod + ".default"
		listeners, tables := []string{"127.0.0.1_9500"}, []string{"http_proxy"}
		hosts, changed := []string{"http_proxy/extra.default.svc.cluster.local:9080"}, []string(nil)
		if isGateway(pod) {
			listeners, tables, hosts, changed = nil, []string{"http.8080"}, nil, []string{"http.8080/*:8080"}
		}
		require.ElementsMatch(t, extraClusters(pod), without(before[pod], after[pod], "cluster "),
			"%s: clusters that are gone", pod)
		require.ElementsMatch(t, extraClusters(pod), removed[proxy+" cds"], "%s: clusters that it was told of", pod)
		require.ElementsMatch(t, listeners, without(before[pod], after[pod], "listener "),
			"%s: listeners that are gone", pod)
		require.ElementsMatch(t, listeners, removed[proxy+" lds"], "%s: listeners that it was told of", pod)
		for _, kind := range []string{"cds", "lds", "eds", "rds"} {
			require.Empty(t, sent[proxy+" "+kind], "%s: %s", pod, kind)
		}
		require.ElementsMatch(t, changed, sent[proxy+" vhds"], "%s: virtual hosts that lose a route", pod)
		require.ElementsMatch(t, hosts, removed[proxy+" vhds"], "%s: virtual hosts that are gone", pod)
		require.Empty(t, append(removed[proxy+" rds"], removed[proxy+" eds"]...), pod)
		for what, updated := range after[pod] {
			if table, ok := strings.CutPrefix(what, "route "); !ok || !slices.Contains(tables, table) {
				require.Equal(t, before[pod][what], updated, "%s has taken %s anew", pod, what)
			}
		}
		list, ok := m.admin(outboundOf(address), "/clusters")
		require.True(t, ok)
		for _, cluster := range extraClusters(pod) {
			require.NotContains(t, list, cluster+"::", pod)
		}
		require.Contains(t, list, "outbound|9080||many.default.svc.cluster.local::", pod)
	}
}

// without are the names of a kind that are in one dump and not in another.
func without(all, others map[string]string, kind string) (names []string) {
	for what := range all {
		if name, ok := strings.CutPrefix(what, kind); ok && others[what] == "" {
			names = append(names, name)
		}
	}
	return names
}

// requireExtra asks for what is removed, and for what stays.
func (m *mesh) requireExtra(t *testing.T, there bool) {
	t.Helper()
	outbound := m.outbound("caller")
	proxied := &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: outbound + ":15080"}),
	}}
	plain := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	status := func(client *http.Client, url string) int {
		status, _, err := get(t.Context(), client, url, nil)
		require.NoError(t, err)
		return status
	}
	for _, stays := range []string{"one", "many"} {
		require.Equal(t, http.StatusOK, status(proxied, "http://"+stays+":9080/"), stays)
		require.Equal(t, http.StatusOK, status(plain, m.gateway+"/"+stays), stays)
	}
	require.Equal(t, there, echoes(t, outbound+":9500"))
	require.True(t, echoes(t, outbound+":9400"))
	if there {
		require.Equal(t, http.StatusOK, status(proxied, "http://extra:9080/"))
		require.Equal(t, http.StatusOK, status(plain, m.gateway+"/extra"))
		return
	}
	require.Equal(t, http.StatusServiceUnavailable, status(proxied, "http://extra:9080/"), "a name that nobody knows")
	require.Equal(t, http.StatusNotFound, status(plain, m.gateway+"/extra"))
}

func echoes(t *testing.T, address string) bool {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_, err = exchange(conn, bufio.NewReader(conn), "hello")
	return err == nil
}

// envoys are the addresses of all pods that have one, by name.
func (m *mesh) envoys() map[string]string {
	m.t.Helper()
	all := map[string]string{}
	for _, p := range m.status().Proxies {
		name := strings.TrimSuffix(p.Proxy, ".default")
		all[name] = m.running(name[:strings.LastIndex(name[:strings.LastIndex(name, "-")], "-")])[name]
		require.NotEmpty(m.t, all[name], name)
	}
	return all
}

// response is one that the control plane says it has sent.
type response struct {
	Message            string `json:"msg"`
	Proxy, Type        string
	Resources, Removed []string
}

// responses are those of the newest control plane.
func (m *mesh) responses() (all []response) {
	m.t.Helper()
	content, err := os.ReadFile(filepath.Join(m.state, "pods", "control-plane.log"))
	require.NoError(m.t, err)
	for line := range strings.Lines(string(content)) {
		var r response
		if json.Unmarshal([]byte(line), &r) != nil {
			continue // cut off by a kill
		}
		switch r.Message {
		case "serving":
			all = nil
		case "response sent":
			all = append(all, r)
		}
	}
	return all
}

// dumps are the version of each resource that each Envoy has, and when it took it.
func (m *mesh) dumps(envoys map[string]string) map[string]map[string]string {
	m.t.Helper()
	all := map[string]map[string]string{}
	for pod, address := range envoys {
		body, ok := m.admin(outboundOf(address), "/config_dump")
		require.True(m.t, ok, pod)
		all[pod] = dumped(m.t, body)
	}
	return all
}

// state is one resource in a dump; listeners have theirs one level deeper.
type state struct {
	Version string `json:"version_info"`
	Updated string `json:"last_updated"`
}

func dumped(t *testing.T, body string) map[string]string {
	t.Helper()
	type named struct{ Name string }
	var dump struct {
		Configs []struct {
			Clusters []struct {
				state
				Cluster named
			} `json:"dynamic_active_clusters"`
			Listeners []struct {
				Name   string
				Active *state `json:"active_state"`
			} `json:"dynamic_listeners"`
			Routes []struct {
				state
				Table named `json:"route_config"`
			} `json:"dynamic_route_configs"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &dump))
	found := map[string]string{}
	for _, c := range dump.Configs {
		for _, r := range c.Clusters {
			found["cluster "+r.Cluster.Name] = r.Version + " " + r.Updated
		}
		for _, r := range c.Listeners {
			if r.Active != nil { // else it drains
				found["listener "+r.Name] = r.Active.Version + " " + r.Active.Updated
			}
		}
		for _, r := range c.Routes {
			found["route "+r.Table.Name] = r.Version + " " + r.Updated
		}
	}
	return found
}

// metric is the sum of a metric's samples that have all of the labels.
func (m *mesh) metric(name string, labels ...string) (sum float64) {
	m.t.Helper()
	_, body, err := get(m.t.Context(), http.DefaultClient, "http://"+m.monitoring+"/metrics", nil)
	require.NoError(m.t, err)
	for line := range strings.Lines(string(body)) {
		var value float64
		if sample, rest, ok := strings.Cut(line, "} "); ok && strings.HasPrefix(sample, name+"{") &&
			!slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(sample, l) }) {
			_, err := fmt.Sscan(rest, &value)
			require.NoError(m.t, err)
			sum += value
		}
	}
	return sum
}
