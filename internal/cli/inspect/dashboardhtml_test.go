package inspect

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/charts"
	"github.com/lateen-mesh/lateen/internal/testkit/browser"
	"github.com/lateen-mesh/lateen/internal/testkit/realprometheus"
)

// answering is a Prometheus that answers each query with two series, one of them with a name that
// would be markup.
func answering(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/v1/query_range":
			from := r.URL.Query().Get("start")
			_, _ = fmt.Fprintf(w, `{"data": {"result": [
				{"metric": {"instance": "a:1", "type": "eds"}, "values": [[%s, "1"], [%s.4, "NaN"]]},
				{"metric": {"instance": "</script><img src=x>", "type": "lds"}, "values": [[%s, "2500000"]]},
				{"metric": {"instance": "none"}, "values": [[%s, "+Inf"]]}]}}`, from, from, from, from)
		case "/api/v1/rules":
			_, _ = io.WriteString(w, `{"data": {"groups": [{"rules": [
				{"name": "Slow", "state": "firing", "labels": {"severity": "warning"},
				 "annotations": {"description": "Look."}, "alerts": [
				  {"activeAt": "2026-01-02T03:04:05Z", "annotations": {"summary": "It takes 3s."}}]},
				{"name": "Stale", "state": "inactive", "labels": {"severity": "critical"}}]}]}}`)
		default:
			http.Error(w, "no pages", http.StatusInternalServerError)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestDashboardIsAPage(t *testing.T) {
	d, err := readDashboard("control-plane")
	require.NoError(t, err)
	page, err := d.page(t.Context(), answering(t), stepsOf(time.Now(), time.Hour))
	require.NoError(t, err)
	require.Equal(t, []string{"Slow", "warning", "firing"}, page.Sections[0].Tables[0].Rows[0][:3])
	require.Equal(t, []string{"It takes 3s.", "Look."}, page.Sections[0].Tables[0].Rows[0][4:])
	require.Equal(t, []string{"Stale", "critical", "inactive", "", "", ""}, page.Sections[0].Tables[0].Rows[1])
	require.Len(t, page.Sections, 1+len(d.Rows))
	for i, row := range d.Rows {
		section := page.Sections[1+i]
		require.Equal(t, row.Row, section.Title)
		require.Equal(t, []string{row.Advice}, section.Lines)
		require.Len(t, section.Charts, len(row.Panels))
	}
	pushes := page.Sections[2].Charts[1]
	require.Equal(t, "Pushes", pushes.Title)
	require.Equal(t, "per second", pushes.Unit)
	require.Len(t, pushes.Series, 2)
	require.Equal(t, "lds", pushes.Series[0].Name, "the highest first")
	require.Len(t, pushes.Categories, 241)
	require.Len(t, pushes.Series[0].Values, 241)
	require.InDelta(t, 2.5e6, *pushes.Series[0].Values[0], 0)
}

func TestDashboardOfAPrometheusWithoutPagesSaysHowToSeeIt(t *testing.T) {
	at := answering(t)
	out, err := output(t, podsAt{}, dashboardCommand, "capacity", "--prometheus", at)
	require.NoError(t, err)
	require.NotContains(t, out, "/query?", "a link that does not open")
	require.Contains(t, out, "lateen dashboard capacity --html capacity.html")
	out, err = output(t, podsAt{}, dashboardCommand, "--prometheus", at, "--monitoring-address",
		replicaWith(t, "a.default", ""))
	require.NoError(t, err)
	require.Contains(t, out, "lateen dashboard control-plane --html control-plane.html --prometheus "+at)
	require.NotContains(t, out, at+"/alerts")

	_, err = output(t, podsAt{}, dashboardCommand, "capacity", "--prometheus", nowhere, "--html", "x.html")
	require.ErrorContains(t, err, "no Prometheus answers")
	_, err = output(t, podsAt{}, dashboardCommand, "capacity", "--since", "1s", "--html", "x.html")
	require.ErrorContains(t, err, "want from 1m to a year, as 1h30m")
}

// TestABrowserDrawsADashboard of a real Prometheus that is built from its Go module, and so has no
// pages. It scrapes numbers that stand in for a control plane's.
func TestABrowserDrawsADashboard(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Prometheus and a browser")
	}
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "pilot_info{version=\"1\"} 1\npilot_xds 7\npilot_services 3\n"+
			"process_resident_memory_bytes 3e7\nlateen_classes 2\n"+
			"lateen_class_config_largest_bytes{type=\"lds\"} 5000\n")
	}))
	t.Cleanup(target.Close)
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(rules, charts.Rules, 0o600))
	p := realprometheus.Start(t, fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs: [{job_name: x, static_configs: [{targets: [%q]}]}]
`, rules, strings.TrimPrefix(target.URL, "http://")))
	require.Eventually(t, func() bool { // the rule is evaluated after a scrape
		at := stepsOf(time.Now(), time.Minute)
		found, err := at.query(t.Context(), "http://"+p.Address, "lateen:proxies:sum and on () pilot_services")
		return err == nil && len(found) > 0
	}, time.Minute, 100*time.Millisecond)

	file := filepath.Join(t.TempDir(), "capacity.html")
	out, err := output(t, podsAt{}, dashboardCommand, "capacity", "--prometheus", "http://"+p.Address, "--html", file)
	require.NoError(t, err)
	at, err := url.Parse(strings.TrimSpace(out))
	require.NoError(t, err)
	require.Equal(t, "file", at.Scheme)
	require.Equal(t, file, at.Path)
	dom := browser.DOM(t, file)
	require.Equal(t, 5, strings.Count(dom, "<svg "), "a chart for each panel with data")
	for _, text := range []string{
		"Lateen / Capacity", "Configuration of the largest class", "Proxies of each replica", "LateenStaleProxies",
		"Certificates issued: no data",
	} {
		require.Contains(t, dom, text)
	}
}
