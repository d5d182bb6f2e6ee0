package airline

import (
	"encoding/csv"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/jmeter"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// planFile is the plan where users find it, a link to that of this package.
const planFile = "../../../examples/airline/airline.jmx"

// gateway leads /NAME/ to each service, as the gateway of a mesh does.
func gateway(t *testing.T, urls map[string]string) *url.URL {
	t.Helper()
	server := httptest.NewServer(routes(t, urls))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	return at
}

// routes leads /NAME/ to each service.
func routes(t *testing.T, urls map[string]string) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	for name, address := range urls {
		to, err := url.Parse(address)
		require.NoError(t, err)
		mux.Handle("/"+name+"/", httputil.NewSingleHostReverseProxy(to))
	}
	return mux
}

// TestJMeterRunsThePlan has the real JMeter send sessions of two customers, who book more than
// keptBookings. Each request is answered, and the mix is that of Load.
func TestJMeterRunsThePlan(t *testing.T) {
	if testing.Short() {
		t.Skip("runs JMeter")
	}
	program := tool.Path(t, "jmeter", "jmeter")
	at := gateway(t, world(t))
	dir := t.TempDir()
	results := filepath.Join(dir, "results.csv")
	command := exec.CommandContext(t.Context(), program, "-n", "-t", planFile, "-l", results,
		"-j", filepath.Join(dir, "jmeter.log"), "-Jhost="+at.Hostname(), "-Jport="+at.Port(), "-Jthreads=1",
		"-Jthink=0", "-Jsessions=60", "-Jcustomers=2", "-Jduration=300", "-Jjmeter.save.saveservice.output_format=csv",
		"-Jjmeter.save.saveservice.print_field_names=true", "-Jjmeter.save.saveservice.default_delimiter=,")
	command.Env = append(os.Environ(), "HOME="+dir)
	out, err := command.CombinedOutput()
	if strings.Contains(string(out), "ForbiddenClassException") {
		t.Skipf("this JMeter can read no plan at all, since its XStream forbids JMeter's own classes: %s", out)
	}
	require.NoError(t, err, "%s", out)
	counts := samples(t, results)
	for name, n := range map[string]int{
		Login: 60, QueryFlight: 60 * queries, BookFlight: 60, ListBookings: 60, Logout: 60,
		ViewProfile: 60 * profileShare / 100, UpdateProfile: 60 * profileShare / 100,
	} {
		require.Equal(t, n, counts[name], "%s: %v\n%s", name, counts, out)
	}
	require.Positive(t, counts[CancelBooking], "all bookings but two")
	require.Contains(t, string(out), "summary =")
}

// TestMergedResultCountsWhatTheServicesSaw: two JMeters for three seconds report as many requests
// as the gateway has had, by their paths too.
func TestMergedResultCountsWhatTheServicesSaw(t *testing.T) {
	if testing.Short() {
		t.Skip("runs JMeter")
	}
	o := jmeter.Options{
		Program: tool.Path(t, "jmeter", "jmeter"), Plan: Plan(), Processes: 2, Clients: 3, Think: 10 * time.Millisecond,
		Duration: 3 * time.Second, Dir: t.TempDir(),
	}
	var all, logins atomic.Int64
	mux := routes(t, world(t))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all.Add(1)
		if r.URL.Path == "/auth/login" {
			logins.Add(1)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	var err error
	o.Target, err = url.Parse(server.URL)
	require.NoError(t, err)
	require.NoError(t, Check(t.Context(), o.Target))
	version, err := o.Probe(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^\d+\.\d+`, version)
	require.EqualValues(t, 1, all.Swap(0), "that of Check, and none of JMeter's trial")
	logins.Store(0)

	files, err := o.Run(t.Context())
	require.NoError(t, err)
	r, err := jmeter.Merge(files...)
	require.NoError(t, err)
	require.EqualValues(t, all.Load(), r.All.Requests)
	require.Positive(t, r.All.Requests)
	require.Zero(t, r.All.Failed, r.Why)
	at := slices.IndexFunc(r.Transactions, func(s jmeter.Summary) bool { return s.Name == Login })
	require.GreaterOrEqual(t, at, 0)
	require.EqualValues(t, logins.Load(), r.Transactions[at].Requests)
	require.Len(t, r.Results, 2)
	require.Equal(t, r.All.Requests, r.Results[0].Requests+r.Results[1].Requests)
}

// samples counts JMeter's samples by their names. Each has been answered with 200.
func samples(t *testing.T, results string) map[string]int {
	t.Helper()
	file, err := os.Open(results)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	rows, err := csv.NewReader(file).ReadAll()
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	label, code := slices.Index(rows[0], "label"), slices.Index(rows[0], "responseCode")
	require.GreaterOrEqual(t, label, 0, "%v", rows[0])
	require.GreaterOrEqual(t, code, 0, "%v", rows[0])
	counts := map[string]int{}
	for _, row := range rows[1:] {
		require.Equal(t, "200", row[code], "%v", row)
		counts[row[label]]++
	}
	return counts
}
