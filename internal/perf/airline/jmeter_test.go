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
	"testing"

	"github.com/stretchr/testify/require"
)

const plan = "../../../examples/airline/airline.jmx"

// gateway leads /NAME/ to each service, as the gateway of a mesh does.
func gateway(t *testing.T, urls map[string]string) *url.URL {
	t.Helper()
	mux := http.NewServeMux()
	for name, address := range urls {
		to, err := url.Parse(address)
		require.NoError(t, err)
		mux.Handle("/"+name+"/", httputil.NewSingleHostReverseProxy(to))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	return at
}

// TestJMeterRunsThePlan has the real JMeter send sessions of two customers, who book more than
// keptBookings. Each request is answered, and the mix is that of Load. It runs where a JMeter is
// installed that can read plans: that of Debian 12 cannot.
func TestJMeterRunsThePlan(t *testing.T) {
	jmeter, err := exec.LookPath("jmeter")
	if err != nil || testing.Short() {
		t.Skip("JMeter is not installed, or tests are to be short")
	}
	at := gateway(t, world(t))
	dir := t.TempDir()
	results := filepath.Join(dir, "results.csv")
	command := exec.CommandContext(t.Context(), jmeter, "-n", "-t", plan, "-l", results,
		"-j", filepath.Join(dir, "jmeter.log"), "-Jhost="+at.Hostname(), "-Jport="+at.Port(), "-Jclients=1",
		"-Jsessions=60", "-Jcustomers=2", "-Jseconds=300", "-Jjmeter.save.saveservice.output_format=csv",
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
