package change

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// requests and tolerance bound what chance may do to a share: by Hoeffding's inequality the share
// of n answers is off by more than ε with a probability of at most 2·exp(−2nε²), here 4·10⁻⁸ for
// each share that a test looks at.
const (
	requests  = 620
	tolerance = 0.12
)

// TestStepsOfTheExampleWork does what the example's README asks its reader to do.
func TestStepsOfTheExampleWork(t *testing.T) {
	m := start(t, bookinfo(t))
	t.Run("page", m.showsThePage)
	t.Run("status", m.tellsItsStatus)
	t.Run("proxy-config", m.tellsWhatProxiesHave)
	t.Run("weights", m.shiftsWeights)
	t.Run("header", m.matchesHeaders)
	t.Run("mistake", m.reportsMistakes)
}

func (m *mesh) showsThePage(t *testing.T) {
	for _, workload := range []string{
		"ingressgateway", "productpage-v1", "details-v1", "ratings-v1", "reviews-v1", "reviews-v2", "reviews-v3",
	} {
		require.Len(t, m.running(workload), 1, "%s in the table", workload)
	}
	status, body, err := get(t.Context(), http.DefaultClient, m.gateway+"/productpage", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(body), "The Comedy of Errors")
	require.Empty(t, incomplete(body))

	status, body, err = get(t.Context(), http.DefaultClient, m.gateway+"/nothing/here", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, status, "the gateway lets in only what the VirtualService names: %s", body)
}

func (m *mesh) tellsItsStatus(t *testing.T) {
	m.requireSettled()
	s := m.status()
	require.Len(t, s.Proxies, 7)
	require.Empty(t, s.Problems)
	for _, p := range s.Proxies {
		for url, r := range p.Resources {
			require.Equal(t, "SYNCED", r.State, "%s %s", p.Proxy, url)
		}
	}
	table, _, exit := m.lateen([]string{"NO_COLOR=1"}, "status")
	require.Zero(t, exit)
	require.NotContains(t, table, "\x1b")
	require.Contains(t, table, "no problems in the mesh's objects")
	require.Equal(t, 7, strings.Count(table, "SYNCED"), table)

	out, _, exit := m.lateen(nil, "status", "-o", "yaml")
	require.Zero(t, exit)
	require.Contains(t, out, "proxies:\n")

	_, errs, exit := m.lateen(nil, "status", "-o", "xml")
	require.Equal(t, 2, exit)
	require.Contains(t, errs, `"xml" for "-o, --output" flag: want table, wide, json or yaml`)
}

func (m *mesh) tellsWhatProxiesHave(t *testing.T) {
	has := map[string]string{
		"clusters":  "reviews.default.svc.cluster.local         9080  v2      outbound",
		"listeners": "virtualInbound",
		"routes":    "reviews.default.svc.cluster.local",
		"endpoints": m.running("reviews-v3")[only(t, m.running("reviews-v3"))] + ":9080",
	}
	if !strings.Contains(m.proxyConfig(t, "listeners", "table"), "virtualInbound") {
		has["listeners"] = m.running("productpage-v1")[only(t, m.running("productpage-v1"))] + "  9080"
	}
	for section, want := range has {
		require.Contains(t, m.proxyConfig(t, section, "table"), want, section)
		var all []map[string]any
		require.NoError(t, json.Unmarshal([]byte(m.proxyConfig(t, section, "json")), &all))
		require.NotEmpty(t, all, section)
	}
	_, errs, exit := m.lateen(nil, "proxy-config", "reviews", "clusters")
	require.Equal(t, 1, exit)
	require.Contains(t, errs, "fits several proxies")
}

func (m *mesh) proxyConfig(t *testing.T, section, output string) string {
	t.Helper()
	out, errs, exit := m.lateen(nil, "proxy-config", "productpage", section, "-o", output)
	require.Zero(t, exit, errs)
	return out
}

func (m *mesh) shiftsWeights(t *testing.T) {
	versions, _ := m.reviewers(requests, nil)
	requireShares(t, versions, map[string]float64{"v1": 0.8, "v2": 0.1, "v3": 0.1})

	mark := m.screen.mark()
	m.edit("traffic.yaml", "subset: v1\n      weight: 80", "subset: v1\n      weight: 40",
		"subset: v3\n      weight: 10", "subset: v3\n      weight: 50")
	m.pushed(mark, "VirtualService default/reviews")
	versions, _ = m.reviewers(requests, nil)
	requireShares(t, versions, map[string]float64{"v1": 0.4, "v2": 0.1, "v3": 0.5})

	mark = m.screen.mark()
	m.edit("traffic.yaml", "subset: v1\n      weight: 40", "subset: v1\n      weight: 0",
		"subset: v2\n      weight: 10", "subset: v2\n      weight: 0",
		"subset: v3\n      weight: 50", "subset: v3\n      weight: 100")
	m.pushed(mark, "VirtualService default/reviews")
	versions, _ = m.reviewers(50, nil)
	require.Equal(t, map[string]int{"v3": 50}, versions, "from the next request on")
}

func requireShares(t *testing.T, got map[string]int, want map[string]float64) {
	t.Helper()
	t.Logf("of %d requests: %v", requests, got)
	for version, share := range want {
		require.InDelta(t, share, float64(got[version])/requests, tolerance, "%s of %v", version, got)
	}
	require.Len(t, got, len(want))
}

func (m *mesh) matchesHeaders(t *testing.T) {
	versions, _ := m.reviewers(50, http.Header{"End-User": {"jason"}})
	require.Equal(t, map[string]int{"v2": 50}, versions)
	versions, _ = m.reviewers(50, http.Header{"End-User": {"someone"}})
	require.Equal(t, map[string]int{"v3": 50}, versions)
}

// reportsMistakes breaks the file in two ways: one that leaves its meaning clear, and one that
// nobody can read.
func (m *mesh) reportsMistakes(t *testing.T) {
	mark := m.screen.mark()
	m.edit("traffic.yaml", "subset: v3\n      weight: 100", "subset: v4\n      weight: 100")
	m.screen.await(t, mark, `error: \S+traffic.yaml:\d+: VirtualService default/reviews: `+
		`spec.http\[1\].route\[2\].destination.subset = "v4": .*want one of v1, v2, v3`)
	m.pushed(mark, "VirtualService default/reviews")
	s := m.status()
	require.Len(t, s.Problems, 1)
	p := s.Problems[0]
	require.Equal(t, []string{
		"error", "VirtualService", "reviews", "spec.http[1].route[2].destination.subset", "v4", "one of v1, v2, v3",
	},
		[]string{p.Severity, p.Kind, p.Name, p.Path, p.Value, p.Want})
	require.Regexp(t, `traffic.yaml:\d+$`, p.Origin)
	table, _, _ := m.lateen(nil, "status")
	require.Contains(t, table, "1 problem in the mesh's objects")

	versions, _ := m.reviewers(20, nil)
	require.Equal(t, map[string]int{"status 503": 20}, versions, "what leads nowhere is refused")
	versions, _ = m.reviewers(20, http.Header{"End-User": {"jason"}})
	require.Equal(t, map[string]int{"v2": 20}, versions, "the other route works on")

	mark = m.screen.mark()
	m.edit("traffic.yaml", "subset: v4\n      weight: 100", "subset: v3\n      weight: 100")
	m.screen.await(t, mark, `mended: \S+traffic.yaml`)
	m.pushed(mark, "VirtualService default/reviews")

	mark = m.screen.mark()
	m.edit("traffic.yaml", "hosts: [reviews]", "hosts: [reviews")
	m.screen.await(t, mark, `error: \S+traffic.yaml`)
	require.Regexp(t, `traffic.yaml:\d+$`, m.status().Problems[0].Origin)
	versions, _ = m.reviewers(20, nil)
	require.Equal(t, map[string]int{"v3": 20}, versions, "what was valid last is in force")
	mark = m.screen.mark()
	m.edit("traffic.yaml", "hosts: [reviews", "hosts: [reviews]")
	m.screen.await(t, mark, `mended: \S+traffic.yaml`)
	require.Empty(t, m.status().Problems)
}

// only is the name of the one pod.
func only(t *testing.T, pods map[string]string) string {
	t.Helper()
	require.Len(t, pods, 1)
	for name := range pods {
		return name
	}
	return ""
}
