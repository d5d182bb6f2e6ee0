package inspect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

const sampleDump = "testdata/config_dump.json"

// shown runs lateen proxy-config on the sample, and returns what it prints.
func shown(t *testing.T, args ...string) string {
	t.Helper()
	out, err := output(t, podsAt{}, proxyConfigCommand, append(args, "--file", sampleDump)...)
	require.NoError(t, err)
	return out
}

const reviewsHost = "reviews.default.svc.cluster.local"

func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

func TestProxyConfigTables(t *testing.T) {
	for kind, want := range map[string]string{
		"clusters": lines(
			"SERVICE FQDN                       PORT  SUBSET  DIRECTION  TYPE          DESTINATION RULE",
			"                                   8080  -       inbound    ORIGINAL_DST  -",
			"BlackHoleCluster                   -     -       -          STATIC        -",
			"reviews.default.svc.cluster.local  9080  v1      outbound   EDS           reviews.default"),
		"listeners": lines(
			"ADDRESS  PORT  MATCH                         DESTINATION",
			"0.0.0.0  9080  ALPN http/1.1, h2c            route 9080",
			"0.0.0.0  9080  tls; SNI reviews.example.com  cluster a.example.com:443 (90), b.example.com:443 (10)",
			"0.0.0.0  9080  ALL                           cluster PassthroughCluster"),
		"routes": lines(
			"TABLE  DOMAINS                               MATCH                 DESTINATION"+
				"                                WEIGHT  OWNER",
			"9080   reviews.default.svc.cluster.local +2  /api* end-user=jason  "+reviewsHost+":9080/v1"+
				"  75      reviews.default",
			"9080   reviews.default.svc.cluster.local +2  /api* end-user=jason  "+reviewsHost+":9080/v2"+
				"  25      reviews.default",
			"9080   reviews.default.svc.cluster.local +2  /old                  redirect /new https"+
				"                        -       -",
			"9080   reviews.default.svc.cluster.local +2  ~/x.*                 answer 503"+
				"                                 -       -"),
		"endpoints": lines(
			"ENDPOINT       STATUS     WEIGHT  LOCALITY  WORKLOAD            CLUSTER",
			"10.9.0.3:9080  HEALTHY    3       eu/a      reviews-v1.default  "+reviewsHost+":9080/v1",
			"10.9.0.4:9080  UNHEALTHY  1       eu/a      -                   "+reviewsHost+":9080/v1"),
		"secrets": lines(
			"SECRET             TYPE         STATE   SERIAL  NOT BEFORE  NOT AFTER",
			"default            certificate  ACTIVE  -       -           -",
			"kubernetes://cert  -            ACTIVE  -       -           -"),
		"bootstrap": lines(
			"FIELD             VALUE",
			"node.id           sidecar~10.9.0.2~web-0.default~default.svc.cluster.local",
			"node.cluster      web.default",
			"node.locality     -",
			"admin.address     127.0.0.1:15000",
			"cluster xds-grpc  /var/run/xds"),
	} {
		require.Equal(t, want, shown(t, kind), kind)
	}
	all := shown(t, "all")
	for _, text := range []string{"SERVICE FQDN", "MATCH", "OWNER", "ENDPOINT", "SECRET"} {
		require.Contains(t, all, text)
	}
}

func TestProxyConfigFilters(t *testing.T) {
	require.Equal(t, 2, strings.Count(shown(t, "cluster", "--direction", "inbound"), "\n"))
	require.Equal(t, 2, strings.Count(shown(t, "c", "--fqdn", "reviews.default.svc.cluster.local"), "\n"))
	require.Equal(t, 1, strings.Count(shown(t, "cluster", "--port", "7"), "\n"))
	require.Equal(t, 5, strings.Count(shown(t, "route", "--port", "9080", "--fqdn", "reviews"), "\n"))
	require.Equal(t, 2, strings.Count(shown(t, "listener", "--fqdn", "b.example.com"), "\n"))
	require.Equal(t, 1, strings.Count(shown(t, "ep", "--fqdn", "none"), "\n"))
	json := shown(t, "cluster", "--fqdn", "BlackHoleCluster", "-o", "json")
	require.Contains(t, json, `"name": "BlackHoleCluster"`)
	require.NotContains(t, json, "reviews")
	require.Contains(t, shown(t, "bootstrap", "-o", "yaml"), "their.own.Sink", "a type that is not known here is shown")
	require.Contains(t, shown(t, "all", "-o", "json"), `"endpoints": [`)
}

// TestProxyConfigTakesBothOrders: istioctl's and ours. The Envoy itself is asked for what only it
// knows, and with --live for everything.
func TestProxyConfigTakesBothOrders(t *testing.T) {
	dump, err := os.ReadFile(sampleDump)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/syncz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `[{"proxy": "web-0.default", "namespace": "default"}]`)
	})
	mux.HandleFunc("/debug/problems", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `[]`) })
	mux.HandleFunc("/debug/config_dump", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"configs": []}`)
	})
	replica := httptest.NewServer(mux)
	defer replica.Close()
	envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(dump) }))
	defer envoy.Close()
	cluster := podsAt{"istiod-0": replica.Listener.Addr().String(), "web-0": envoy.Listener.Addr().String()}
	for args, rows := range map[string]int{
		"web-0.default clusters": 0, "cluster web-0.default": 0, "clusters web": 0, "web-0.default cluster --live": 3,
		"bootstrap web-0.default": 5, "secret web-0.default": 2,
	} {
		out, err := output(t, cluster, proxyConfigCommand, strings.Fields(args)...)
		require.NoError(t, err, args)
		require.Equal(t, rows+1, strings.Count(out, "\n"), "%s:\n%s", args, out)
	}
	_, err = output(t, cluster, proxyConfigCommand, "cluster", "nobody")
	require.EqualError(t, err, `no proxy "nobody" is connected; want one of web-0.default`)
	_, err = output(t, podsAt{}, proxyConfigCommand, "bootstrap", "web-0", "--monitoring-address", cluster["istiod-0"])
	require.ErrorContains(t, err, "only the proxy knows its bootstrap")
}

// TestProxyConfigIsReadableInNarrowWindows: rows keep what tells them apart.
func TestProxyConfigIsReadableInNarrowWindows(t *testing.T) {
	body, err := os.ReadFile(sampleDump)
	require.NoError(t, err)
	dump, err := readDump(body)
	require.NoError(t, err)
	for _, columns := range []int{60, 80} {
		for _, kind := range configKinds() {
			table, _ := dump.section(kind, rowFilter{})
			var out strings.Builder
			terminal.New(&out, func(name string) string {
				return map[string]string{"COLUMNS": fmt.Sprint(columns)}[name]
			}).Table(table)
			seen := map[string]bool{}
			for line := range strings.Lines(out.String()) {
				require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), columns, line)
				require.False(t, seen[line], "two rows look alike: %s", line)
				seen[line] = true
			}
		}
	}
}
