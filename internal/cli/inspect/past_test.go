package inspect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// pastServer answers as a replica of two proxies, with these pages beside.
func pastServer(t *testing.T, pages map[string]any, asked *url.Values) podsAt {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/syncz", func(w http.ResponseWriter, _ *http.Request) {
		assertEncodes(t, w, []page.SyncStatus{
			{ProxyID: "web-1.shop", ConnectedAt: time.Unix(200, 0)},
			{ProxyID: "web-2.shop", ConnectedAt: time.Unix(100, 0)},
		})
	})
	mux.HandleFunc("/debug/problems", func(w http.ResponseWriter, _ *http.Request) { assertEncodes(t, w, []any{}) })
	for name, answer := range pages {
		mux.HandleFunc("/debug/"+name, func(w http.ResponseWriter, r *http.Request) {
			*asked = r.URL.Query()
			assertEncodes(t, w, answer)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return podsAt{"istiod-0": server.Listener.Addr().String()}
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)

func TestBlameTellsTheChangesOfEachPart(t *testing.T) {
	checkout := page.Cause{
		Kind: "VirtualService", Namespace: "shop", Name: "checkout", Verb: page.Changes,
		Manager: "kubectl", Written: noon,
	}
	part := func(path, before, after string) []page.FieldChange {
		return []page.FieldChange{{Path: path, Before: before, After: after}}
	}
	blame := page.Blame{Type: "vhds", Name: "80/checkout", Changes: []page.BlamedChange{
		{
			Generation: 7, At: noon, Causes: []page.Cause{checkout}, MoreCauses: 5,
			Parts: part("routes[0].timeout", `"1s"`, `"2s"`),
		},
		{At: noon.Add(-time.Minute), Parts: part("domains[1]", "", `"x"`)},
		{Generation: 3, At: noon.Add(-time.Hour), Rest: true, Causes: []page.Cause{
			{Kind: "Service", Namespace: "shop", Name: "checkout", Verb: page.Created},
		}},
	}}
	var asked url.Values
	cluster := pastServer(t, map[string]any{page.Blaming: blame}, &asked)
	out, err := output(t, cluster, blameCommand, "web-1", "routes", "checkout")
	require.NoError(t, err)
	require.Equal(t, url.Values{"proxy": {"web-1.shop"}, "type": {"vhds"}, "name": {"checkout"}}, asked)
	require.Equal(t, lines(
		"vhds 80/checkout",
		"2026-11-30 12:00:00  generation 7",
		"  VirtualService shop/checkout changed, by kubectl at 12:00:00",
		"  and 1 more objects",
		`    ~ routes[0].timeout: "1s" → "2s"`,
		"2026-11-30 11:59:00  the proxy came back, and got what it had missed",
		`    + domains[1]: "x"`,
		"2026-11-30 11:00:00  generation 3",
		"  Service shop/checkout created",
		"    all else"), out)
	out, err = output(t, cluster, blameCommand, "web-1", "cluster", "checkout", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"generation": 7`)
	_, err = output(t, cluster, blameCommand, "web-1", "secret", "checkout")
	require.ErrorContains(t, err, "want cluster, listener")

	cluster = pastServer(t, map[string]any{page.Blaming: page.Blame{Type: "cds", Name: "x", Since: noon}}, &asked)
	out, err = output(t, cluster, blameCommand, "web-1", "cluster", "x")
	require.NoError(t, err)
	require.Contains(t, out, "all else is older than 2026-11-30 12:00:00, before which nothing is known")
}

func TestDiffConfigIsOfAProxyOrAWorkload(t *testing.T) {
	diff := page.ConfigDiff{From: noon, To: noon.Add(time.Hour), Forgotten: []string{"eds large"},
		PlannedEffect: page.PlannedEffect{Proxy: "web-2.shop", Left: 2, Changes: []page.PlannedChange{{
			Type: "cds", Name: "x", Verb: page.Changes,
			Fields: []page.FieldChange{{Path: "a", Before: "1", After: "2"}},
		}}}}
	var asked url.Values
	cluster := pastServer(t, map[string]any{page.Differing: diff}, &asked)
	out, err := output(t, cluster, diffConfigCommand, "2026-11-30 12:00", "2026-11-30 13:00", "web.shop")
	require.NoError(t, err)
	require.Equal(t, "web-2.shop", asked.Get("proxy"), "it is connected for the longest time")
	require.Equal(t, page.DiffQuestion{Proxy: "web-2.shop", From: noon.UTC(), To: noon.Add(time.Hour).UTC()},
		inUTC(page.DiffQuestionOf(asked)))
	require.Equal(t, lines(
		"web-2.shop, from 2026-11-30 12:00:00 to 2026-11-30 13:00:00",
		"  cds x: changed",
		"    ~ a: 1 → 2",
		"  and 2 more resources",
		"  note: eds large: its content is not remembered, only that it was there"), out)
	_, err = output(t, cluster, diffConfigCommand, "1h", "now", "web-1")
	require.NoError(t, err)
	require.Empty(t, asked.Get("to"))
	for _, times := range [][2]string{{"now", "1h"}, {"1h", "2h"}, {"never", "now"}, {"", "now"}} {
		_, err = output(t, cluster, diffConfigCommand, times[0], times[1], "web-1")
		require.Error(t, err, times)
	}
	_, err = output(t, cluster, diffConfigCommand, "1h", "now", "nobody.shop")
	require.ErrorContains(t, err, `no proxy "nobody.shop" is connected`)
}

// TestPodsOfAWorkload: what a controller's name for them says, and not those of others that begin
// alike.
func TestPodsOfAWorkload(t *testing.T) {
	for pod, is := range map[string]bool{
		"checkout-7d9f8c6b5-x2x4q": true, "checkout-x2x4q": true, "checkout-12": true, "checkout": false,
		"checkout-admin-7d9f8c6b5-x2x4q": false, "checkout-payments-x2x4q": false, "checkout-v1-0": false,
		"check-7d9f8c6b5-x2x4q": false,
	} {
		require.Equal(t, is, isPodOf(pod, "checkout"), pod)
	}
}

// TestKindsOfSeveralGroupsNeedOne: a name that two kinds have is not taken for one of them.
func TestKindsOfSeveralGroupsNeedOne(t *testing.T) {
	for text, want := range map[string]string{
		"virtualservice": "VirtualService", "Gateway.networking.istio.io": "Gateway", "service": "Service",
		"gateway.gateway.networking.k8s.io":  "Gateway.gateway.networking.k8s.io",
		"VirtualService.networking.istio.io": "VirtualService",
	} {
		got, err := kindNamed(text)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := kindNamed("Gateway")
	require.ErrorContains(t, err, "want Gateway.networking.istio.io or Gateway.gateway.networking.k8s.io")
	_, err = kindNamed("Thing")
	require.ErrorContains(t, err, "is no kind")
}

func inUTC(q page.DiffQuestion) page.DiffQuestion {
	q.From, q.To = q.From.UTC(), q.To.UTC()
	return q
}

func TestAtIsProxyConfigOfATime(t *testing.T) {
	dump := map[string]any{"configs": []any{
		map[string]any{"@type": "type.googleapis.com/google.protobuf.Struct", "value": map[string]any{
			page.Forgotten: []string{"eds large"},
		}},
	}}
	var asked url.Values
	cluster := pastServer(t, map[string]any{page.Dump: dump}, &asked)
	_, err := output(t, cluster, atCommand, "2026-11-30 12:00", "proxy-config", "web-1", "clusters", "-o", "json")
	require.NoError(t, err)
	at, err := time.Parse(time.RFC3339Nano, asked.Get(page.ConfigAt))
	require.NoError(t, err)
	require.True(t, at.Equal(noon))
	for want, args := range map[string][]string{
		"want a duration":            {"never", "pc", "web-1", "clusters"},
		"want at TIME proxy-config":  {"1h", "status"},
		"of a bootstrap nothing":     {"1h", "pc", "web-1", "bootstrap"},
		"TIME: want a time":          {"", "pc", "web-1", "clusters"},
		"unknown flag: --everything": {"1h", "pc", "web-1", "clusters", "--everything"},
	} {
		_, err := output(t, cluster, atCommand, args...)
		require.ErrorContains(t, err, want, args)
	}
	out, err := output(t, cluster, atCommand, "--help")
	require.NoError(t, err)
	require.Contains(t, out, "lateen at")
}

func TestRollbackPrintsCommands(t *testing.T) {
	const api = "networking.istio.io/v1"
	earlier := page.Restoration{At: noon, Since: noon.Add(-time.Hour), Objects: []page.EarlierObject{
		{APIVersion: api, Kind: "VirtualService", Namespace: "shop", Name: "a", Verb: page.Changes,
			Spec: map[string]any{"hosts": []string{"it's"}}},
		{APIVersion: api, Kind: "DestinationRule", Namespace: "shop", Name: "b", Verb: page.Deleted},
		{APIVersion: api, Kind: "Gateway", Namespace: "shop", Name: "c", Verb: page.Created,
			Labels: map[string]string{"a": "b"}, Spec: map[string]any{"selector": map[string]string{"x": "y"}}},
		{APIVersion: api, Kind: "Sidecar", Namespace: "shop", Name: "d", Verb: page.Unknown},
		{APIVersion: "gateway.networking.k8s.io/v1", Kind: "GatewayClass", Name: "e", Verb: page.Deleted},
	}, Restarts: []time.Time{noon.Add(time.Minute)}}
	var asked url.Values
	cluster := pastServer(t, map[string]any{page.Restoring: earlier}, &asked)
	out, err := output(t, cluster, rollbackCommand, "--to", "2026-11-30 12:00", "-n", "shop")
	require.NoError(t, err)
	require.Equal(t, "shop", asked.Get("namespace"))
	require.Equal(t, lines(
		`kubectl patch virtualservices.networking.istio.io a -n shop --type=json `+
			`-p '[{"op":"replace","path":"/spec","value":{"hosts":["it'\''s"]}}]'`,
		"kubectl delete destinationrules.networking.istio.io b -n shop",
		"kubectl create -f - <<'EOF'",
		"apiVersion: networking.istio.io/v1", "kind: Gateway",
		"metadata:", "  labels:", "    a: b", "  name: c", "  namespace: shop",
		"spec:", "  selector:", "    x: \"y\"",
		"EOF",
		"# sidecars.networking.istio.io d -n shop: what it was is not remembered",
		"kubectl delete gatewayclasses.gateway.networking.k8s.io e",
		"# what is created has the labels and annotations that the control plane reads, and no others",
		"# the control plane started at 2026-11-30 12:01:00: what changed while it was away is not known"), out)
	for flag, want := range map[string]string{"--to=never": "want a duration", "--object=x": "want KIND"} {
		_, err = output(t, cluster, rollbackCommand, "--to=1h", flag)
		require.ErrorContains(t, err, want)
	}
	cluster = pastServer(t, map[string]any{page.Restoring: page.Restoration{At: noon}}, &asked)
	out, err = output(t, cluster, rollbackCommand, "--to", "1h")
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln("no object that can be restored changed since 2026-11-30 12:00:00"), out)
	_, err = output(t, cluster, rollbackCommand, "--to", "1h", "--object", "Service/shop/web")
	require.ErrorContains(t, err, "is not kept whole")
}

func TestCostAddsUpReplicas(t *testing.T) {
	of := func(seconds float64, since time.Time) page.Cost {
		row := page.CostRow{Name: "noisy", Changes: 90, Seconds: seconds, Pushes: 400, Bytes: 5e6}
		quiet := page.CostRow{Name: "shop", Changes: 2, Seconds: 0.001, Pushes: 3.5, Bytes: 1000}
		total := page.CostRow{Name: "total"}
		total.Add(row)
		total.Add(quiet)
		return page.Cost{Rows: []page.CostRow{quiet, row}, Total: total, Since: since}
	}
	var asked url.Values
	cluster := pastServer(t, map[string]any{page.Costing: of(0.5, noon)}, &asked)
	other := pastServer(t, map[string]any{page.Costing: of(0.25, noon.Add(time.Minute))}, &url.Values{})
	cluster["istiod-1"] = other["istiod-0"]
	out, err := output(t, cluster, costCommand, "--since", "1h")
	require.NoError(t, err)
	require.Equal(t, "namespace", asked.Get("by"))
	require.Equal(t, lines(
		"OF     CHANGES  TIME   SHARE  PUSHES  BYTES",
		"noisy  90       750ms  100 %  800     10000000",
		"shop   2        2ms    0 %    7       2000",
		"total  92       752ms  100 %  807     10002000",
		"since 2026-11-30 12:01:00"), out)
	out, err = output(t, cluster, costCommand, "--limit", "1")
	require.NoError(t, err)
	require.Contains(t, out, "1 more  2        2ms    0 %    7       2000\n")
	for flag, want := range map[string]string{
		"--by=node": "want", "--limit=0": "from 1 on", "--since=x": "want a duration",
	} {
		_, err = output(t, cluster, costCommand, flag)
		require.ErrorContains(t, err, want)
	}
}
