package sample

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is how long anything may take at the end of a server: on a busy machine a client needs
// its time too.
const patience = 3 * time.Minute

// start runs a server until the test ends, and returns its addresses.
func start(t *testing.T, o Options) (addrs []string, stop func()) {
	t.Helper()
	o.Address = "127.0.0.1"
	o.finish, o.linger = patience, patience
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan []net.Addr, 1), make(chan error, 1)
	go func() { ended <- Run(ctx, o, func(a []net.Addr) { ready <- a }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
		http.DefaultClient.CloseIdleConnections()
	})
	t.Cleanup(stop)
	for _, a := range <-ready {
		addrs = append(addrs, a.String())
	}
	return addrs, stop
}

// startRole runs one part of the bookshop and returns its URL.
func startRole(t *testing.T, o Options) string {
	t.Helper()
	o.Ports = []int{0}
	addrs, _ := start(t, o)
	return "http://" + addrs[0]
}

func get(t *testing.T, url string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestEcho(t *testing.T) {
	url := startRole(t, Options{Role: Echo, Version: "v7", Hostname: "pod-1"})
	status, body := get(t, url+"/a/b?c=d", "x-test", "1")
	require.Equal(t, http.StatusOK, status)
	var e Echoed
	require.NoError(t, json.Unmarshal([]byte(body), &e))
	require.Equal(t, "pod-1", e.Hostname)
	require.Equal(t, "v7", e.Version)
	require.Equal(t, "/a/b", e.Path)
	require.Equal(t, "c=d", e.Query)
	require.Equal(t, http.MethodGet, e.Method)
	require.Equal(t, "1", e.Headers.Get("x-test"))
}

func TestProvoked(t *testing.T) {
	url := startRole(t, Options{Role: Echo})
	for path, want := range map[string]int{
		"/status/418":            418,
		"/status/x":              400,
		"/status/700":            400,
		"/delay/1":               200,
		"/delay/-1":              400,
		"/delay/99999999":        400,
		"/fail?ratio=1":          503,
		"/fail?ratio=1&code=500": 500,
		"/fail?ratio=0":          200,
		"/fail?ratio=2":          400,
		"/fail":                  400,
		"/health":                200,
	} {
		status, _ := get(t, url+path)
		require.Equal(t, want, status, path)
	}
	for _, ok := range []string{"false", "true"} {
		resp, err := http.Post(url+"/health?ok="+ok, "", nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		status, _ := get(t, url+"/health")
		require.Equal(t, ok == "true", status == http.StatusOK)
	}
}

func TestFailuresAreEvenlySpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		permille := rapid.Uint64Range(0, 1000).Draw(t, "permille")
		var failed uint64
		for n := uint64(1); n <= 2000; n++ {
			if failsNow(n, float64(permille)/1000) {
				failed++
			}
			require.Equal(t, n*permille/1000, failed)
		}
	})
}

// TestBookshop plays all parts against each other.
func TestBookshop(t *testing.T) {
	ratings := startRole(t, Options{Role: Ratings, Version: "v1"})
	details := startRole(t, Options{Role: Details, Version: "v1"})
	for version, want := range map[string]string{"v1": "", "v2": `class="stars black"`, "v3": `class="stars red"`} {
		reviews := startRole(t, Options{Role: Reviews, Version: version, Hostname: "reviews-pod", RatingsURL: ratings})
		front := startRole(t, Options{Role: ProductPage, ReviewsURL: reviews, DetailsURL: details, RatingsURL: ratings})
		status, page := get(t, front+"/productpage")
		require.Equal(t, http.StatusOK, status)
		require.Contains(t, page, "The Comedy of Errors")
		require.Contains(t, page, "<strong>"+version+"</strong>, reviews-pod")
		require.Equal(t, want != "", strings.Contains(page, "★★★★☆"))
		require.Contains(t, page, want)
		_, list := get(t, front+"/api/v1/products/0/reviews")
		require.Contains(t, list, `"version":"`+version+`"`)
	}
}

func TestPageShowsWhichServicesAreDown(t *testing.T) {
	reviews := startRole(t, Options{Role: Reviews, Version: "v2", RatingsURL: "http://127.0.0.1:1"})
	front := startRole(t, Options{Role: ProductPage, ReviewsURL: reviews, DetailsURL: "http://127.0.0.1:1"})
	status, page := get(t, front+"/productpage")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, page, "The details are not available")
	require.Contains(t, page, "Ratings are not available at the moment")
}

// TestUserReachesOthers signs in and looks at what a called service is told.
func TestUserReachesOthers(t *testing.T) {
	echo := startRole(t, Options{Role: Echo})
	front := startRole(t, Options{
		Role:       ProductPage,
		ReviewsURL: echo + "/reviews-of",
		DetailsURL: echo,
		RatingsURL: echo,
	})
	_, body := get(t, front+"/api/v1/products/0/reviews",
		"cookie", "user=jason", "x-request-id", "r1", "sw8", "1-a-b", "x-datadog-parent-id", "7", "x-private", "no")
	var e Echoed
	require.NoError(t, json.Unmarshal([]byte(body), &e))
	require.Equal(t, "jason", e.Headers.Get("end-user"))
	require.Equal(t, "r1", e.Headers.Get("x-request-id"))
	require.Equal(t, "1-a-b", e.Headers.Get("sw8"), "SkyWalking's")
	require.Equal(t, "7", e.Headers.Get("x-datadog-parent-id"))
	require.Empty(t, e.Headers.Get("x-private"))
}

func TestCallsGoThroughTheProxy(t *testing.T) {
	proxy := startRole(t, Options{Role: Echo, Hostname: "proxy"})
	url := startRole(t, Options{
		Role:  Echo,
		Proxy: proxy,
		Calls: []Call{{Path: "/all", URL: "http://somewhere:9080/there"}},
	})
	_, body := get(t, url+"/all")
	var e Echoed
	require.NoError(t, json.Unmarshal([]byte(body), &e))
	require.Len(t, e.Calls, 1)
	require.Equal(t, http.StatusOK, e.Calls[0].Status)
	var there Echoed
	require.NoError(t, json.Unmarshal(e.Calls[0].Body, &there))
	require.Equal(t, "proxy", there.Hostname)
	require.Equal(t, "somewhere:9080", there.Host)
}

// A client that goes on writing while the server ends reads all that was answered, the farewell and
// then the end: no reset, which would take with it what is on its way.
func TestLinesEndWithoutAReset(t *testing.T) {
	addrs, stop := start(t, Options{Role: Echo, Version: "v1", TCP: []int{0}})
	conn, err := net.Dial("tcp", addrs[0])
	require.NoError(t, err)
	var writing sync.WaitGroup
	writing.Go(func() {
		for lines := strings.Repeat("line\n", 100); ; {
			if _, err := io.WriteString(conn, lines); err != nil {
				return // closed below
			}
		}
	})
	answers := bufio.NewScanner(conn)
	require.True(t, answers.Scan())
	var ending sync.WaitGroup
	ending.Go(stop)
	last := answers.Text()
	for answers.Scan() {
		last = answers.Text()
	}
	require.NoError(t, answers.Err())
	require.Equal(t, "v1 ends", last)
	require.NoError(t, conn.Close())
	writing.Wait()
	ending.Wait()
}

func TestLineEcho(t *testing.T) {
	addrs, _ := start(t, Options{Role: Echo, Version: "v2", TCP: []int{0}})
	conn, err := net.Dial("tcp", addrs[0])
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintln(conn, "hello")
	require.NoError(t, err)
	line, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "v2 hello\n", line)
}

// TestEndFinishesWhatIsInFlight stops the server while a request waits in it.
func TestEndFinishesWhatIsInFlight(t *testing.T) {
	called := make(chan struct{})
	hold, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	release := make(chan struct{})
	upstream := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(called)
		<-release
	})}
	go func() { _ = upstream.Serve(hold) }()
	defer func() { _ = upstream.Close() }()

	addrs, stop := start(t, Options{
		Role:  Echo,
		Ports: []int{0},
		Calls: []Call{{Path: "/slow", URL: "http://" + hold.Addr().String()}},
	})
	status := make(chan int, 1)
	go func() {
		resp, err := http.Get("http://" + addrs[0] + "/slow")
		if err != nil {
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-called
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		stop()
	}()
	close(release)
	require.Equal(t, http.StatusOK, <-status)
	<-stopped
}

func TestFlags(t *testing.T) {
	env := map[string]string{
		"LATEEN_APP_ADDRESS": "127.64.0.1",
		"HTTP_PROXY":         "http://127.96.0.1:15080",
		"HOSTNAME":           "pod-1",
	}
	var o Options
	fs := flag.NewFlagSet("sample", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	o.Bind(fs, func(name string) string { return env[name] })
	require.NoError(t, fs.Parse([]string{
		"--role=reviews", "--port=1", "--port=2", "--tcp=3", "--call=/a=http://b,http://c",
	}))
	require.NoError(t, o.validate())
	require.Equal(t, "127.64.0.1", o.Address)
	require.Equal(t, "pod-1", o.Hostname)
	require.Equal(t, env["HTTP_PROXY"], o.Proxy)
	require.Equal(t, []int{1, 2}, o.Ports)
	require.Equal(t, []int{3}, o.TCP)
	require.Equal(t, []Call{{"/a", "http://b"}, {"/a", "http://c"}}, o.Calls)
	require.ErrorContains(t, fs.Parse([]string{"--port=x"}), "want a number")
	require.ErrorContains(t, fs.Parse([]string{"--call=x"}), "want PATH=URL")
	require.ErrorContains(t, (&Options{Role: "king"}).validate(), "want one of")
	require.ErrorContains(t, (&Options{Role: Echo, Address: "127.0.0.1"}).validate(), "no port")
}
