package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/charts"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

// nowhere is an address at which nothing listens.
const nowhere = "http://127.0.0.1:1"

func TestDashboardsHaveRowsWithAdviceAndLinks(t *testing.T) {
	require.Equal(t, []string{"capacity", "control-plane", "data-plane", "push-pipeline"}, dashboardNames())
	for _, name := range dashboardNames() {
		out, err := output(t, podsAt{}, dashboardCommand, name, "-o", "json", "--prometheus", "http://p.test:1/")
		require.NoError(t, err)
		var d dashboard
		require.NoError(t, json.Unmarshal([]byte(out), &d))
		require.NotEmpty(t, d.Rows, name)
		for _, r := range d.Rows {
			require.NotEmpty(t, r.Advice, r.Row)
			link, err := url.Parse(r.URL)
			require.NoError(t, err)
			require.Equal(t, "p.test:1/query", link.Host+link.Path)
			n := 0
			for _, p := range r.Panels {
				for _, q := range p.Queries {
					require.NotContains(t, q, "$")
					require.Equal(t, q, link.Query().Get(fmt.Sprintf("g%d.expr", n)))
					n++
				}
			}
			require.Positive(t, n, r.Row)
		}
		text, err := output(t, podsAt{}, dashboardCommand, name)
		require.NoError(t, err)
		require.Contains(t, text, d.Title+"\n\n"+d.Rows[0].Row+": ")
		require.Contains(t, text, "\nhttp://127.0.0.1:9090/query?g0.expr=")

		grafana, err := output(t, podsAt{}, dashboardCommand, name, "--grafana")
		require.NoError(t, err)
		want, err := charts.FS.ReadFile(charts.DashboardDir + "/" + name + ".json")
		require.NoError(t, err)
		require.Equal(t, string(want), grafana)
	}
}

func TestDashboardListsWhatThereIs(t *testing.T) {
	monitoring := replicaWith(t, "a.default", "")
	prometheus := httptest.NewServer(http.NotFoundHandler())
	defer prometheus.Close()
	out, err := output(t, podsAt{}, dashboardCommand, "--monitoring-address", monitoring, "--prometheus",
		prometheus.URL)
	require.NoError(t, err)
	require.Regexp(t, `metrics +http://`+monitoring+`/metrics`, out)
	require.Regexp(t, `alerts +`+prometheus.URL+`/alerts`, out)
	require.Regexp(t, `data-plane +lateen dashboard data-plane `, out)
	require.Regexp(t, `envoy +lateen dashboard envoy POD.NAMESPACE --prometheus `+prometheus.URL, out)

	cluster := podsAt{"istiod-0": replicaWith(t, "a.default", ""), "grafana": ""}
	out, err = output(t, cluster, dashboardCommand, "--namespace", "mesh", "--add-on-namespace", "look at")
	require.NoError(t, err)
	require.Regexp(t, `debug +lateen dashboard debug --namespace mesh `, out)
	require.Regexp(t, `grafana +lateen dashboard grafana --namespace mesh --add-on-namespace 'look at' `, out)
	require.Regexp(t, `kiali +- +no Pod with app=kiali runs in namespace look at`, out)

	out, err = output(t, podsAt{}, dashboardCommand, "--prometheus", nowhere, "-o", "json")
	require.NoError(t, err, "dashboards are there without a control plane")
	require.Contains(t, out, "nobody answers at 127.0.0.1:1, and no control plane")
	require.Contains(t, out, "nobody answers at http://127.0.0.1:1; want lateen up --observe, or --prometheus")
	require.NotContains(t, out, `"alerts"`)

	_, err = output(t, podsAt{}, dashboardCommand, "--prometheus", "p")
	require.ErrorContains(t, err, "want a URL, as http://127.0.0.1:9090")
}

func TestUpNamesTheCommandOfItsDashboards(t *testing.T) {
	require.Equal(t, "lateen dashboard", DashboardsOf("127.0.0.1:15014", "http://127.0.0.1:9090"))
	require.Equal(t, "lateen dashboard --monitoring-address 127.0.0.1:1 --prometheus http://127.0.0.1:2",
		DashboardsOf("127.0.0.1:1", "http://127.0.0.1:2"))
}

func TestDashboardForwardsToAPod(t *testing.T) {
	grafana := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "grafana has "+r.URL.Path)
	}))
	defer grafana.Close()
	read, write := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	r := &remote.Remote{Open: func(*remote.Remote) (remote.Pods, error) {
		return podsAt{"grafana": strings.TrimPrefix(grafana.URL, "http://")}, nil
	}}
	cmd := dashboardCommand(console.Plain(write), r)
	cmd.SetArgs([]string{"grafana"})
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	at := regexp.MustCompile(`^(http://\S+)   \(Pod istio-system/grafana; Ctrl-C ends it\)`).FindStringSubmatch(line)
	require.NotNil(t, at, line)
	response, err := http.Get(at[1] + "/d/1")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, "grafana has /d/1", string(body))
	cancel()
	require.NoError(t, <-ended, "also with an open connection")
	http.DefaultClient.CloseIdleConnections()
}

func TestDashboardOfWhatIsNotThere(t *testing.T) {
	_, err := output(t, podsAt{}, dashboardCommand, "kiali")
	require.EqualError(t, err,
		"no Pod with app=kiali runs in namespace istio-system; want --add-on-namespace of kiali")
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data": {"activeTargets": [{"discoveredLabels": {"instance": "control-plane"}},
			{"discoveredLabels": {"instance": "web.shop", "__meta_lateen_envoy_admin": "127.1.2.3:15000"}}]}}`)
	}))
	defer prometheus.Close()
	out, err := output(t, podsAt{}, dashboardCommand, "envoy", "web.shop", "--prometheus", prometheus.URL)
	require.NoError(t, err)
	require.Equal(t, "http://127.1.2.3:15000/\n", out)
	_, err = output(t, podsAt{}, dashboardCommand, "envoy", "web", "--prometheus", prometheus.URL)
	require.ErrorContains(t, err, "knows no proxy web.default; want one of web.shop")
}

// TestMistakesOfDashboardSayWhatWouldBeRight: no Prometheus, another server, an older one, no
// cluster, ports and files that cannot be had.
func TestMistakesOfDashboardSayWhatWouldBeRight(t *testing.T) {
	serve := func(status int, text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	page, empty := serve(http.StatusUnauthorized, "<html>Log in</html>"), serve(http.StatusOK, `{"data": {}}`)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	for _, c := range []struct{ args, want string }{
		{"envoy web --prometheus " + nowhere, "nobody answers at --prometheus " + nowhere + "; want the URL of a Prom"},
		{"prometheus --prometheus " + nowhere, "or --kubeconfig FILE for a cluster"},
		{"envoy web --prometheus " + empty, empty + " knows no proxies of lateen up; want --prometheus of one that"},
		{"envoy web --prometheus " + page, page + ` answers "401 Unauthorized", and not as a Prometheus does`},
		{"capacity --html c.html --prometheus " + nowhere, "want --prometheus with the URL of one, as lateen up"},
		{"capacity --html no/such/c.html --prometheus " + answering(t), "want a file in a directory that is there"},
		{"grafana --port 70000", "want a port from 1 to 65535, or 0 for a free one"},
		{"grafana --port " + port, "want a port that is free, or none"},
	} {
		_, err := output(t, podsAt{"grafana": ""}, dashboardCommand, strings.Fields(c.args)...)
		require.ErrorContains(t, err, c.want, c.args)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestDashboardWithoutAnythingToAskSaysSo(t *testing.T) {
	o := &dashboardOptions{prometheus: nowhere}
	o.Flag = func(...string) bool { return false }
	o.Open = func(*remote.Remote) (remote.Pods, error) { return nil, errors.New("no kubeconfig") }
	_, err := o.clusterInstead()
	require.EqualError(t, err, "nobody answers at http://127.0.0.1:1, where lateen up --observe runs Prometheus, and "+
		"no cluster is found: want --prometheus, or --kubeconfig FILE (no kubeconfig)")
}
