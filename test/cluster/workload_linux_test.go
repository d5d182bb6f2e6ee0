package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

// echo is the manifest of a Deployment APP-VERSION of the echo server, which answers HTTP at port
// 8080; more are further arguments of it, and "node=NAME".
func echo(app, version string, replicas int, more ...string) string {
	return deployment(app+"-"+version, app, version, replicas,
		append([]string{"--version=" + version, "--port=8080"}, more...))
}

func deployment(name, app, version string, replicas int, args []string) string {
	port, node := 9080, ""
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		name, chosen := strings.CutPrefix(a, "node=")
		if chosen {
			node = "kubernetes.io/hostname: " + name
		}
		return chosen
	})
	for _, a := range args {
		_, _ = fmt.Sscanf(a, "--port=%d", &port) // the last one counts
	}
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s}
spec:
  replicas: %d
  strategy: {rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
  selector: {matchLabels: {app: %s, version: %s}}
  template:
    metadata: {labels: {app: %s, version: %s}}
    spec:
      terminationGracePeriodSeconds: 20
      nodeSelector: {%s}
      containers:
      - name: app
        image: lateen/sample
        args: ["%s"]
        ports: [{containerPort: %d}]
        readinessProbe: {httpGet: {path: /health, port: %d}}
        lifecycle: {preStop: {sleep: {seconds: 2}}}
`, name, replicas, app, version, app, version, node, strings.Join(args, `", "`), port, port)
}

// workload calls as a workload does: from a pod's network namespace.
type workload struct {
	c    *cluster
	pod  *podnet.Pod
	http *http.Client
}

// from is the workload of a ready pod with labels.
func (c *cluster) from(t *testing.T, selector string) *workload {
	t.Helper()
	pods := c.pods(t, selector)
	require.NotEmpty(t, pods, "pods with %s", selector)
	return c.within(t, c.kubelet.Pod(pods[0].Namespace, pods[0].Name))
}

// within is a workload in a network namespace.
func (c *cluster) within(t *testing.T, pod *podnet.Pod) *workload {
	t.Helper()
	w := &workload{c: c, pod: pod}
	require.NotNil(t, w.pod)
	transport := &http.Transport{DialContext: w.dial, MaxIdleConnsPerHost: 8, DisableCompression: true}
	w.http = &http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(transport.CloseIdleConnections)
	return w
}

// dial looks a name up as the pod would, and connects.
func (w *workload) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil {
		found := w.c.names.Lookup(host, w.c.namespace)
		if len(found) == 0 {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		}
		host = found[0].String()
	}
	return w.pod.Dial(ctx, network, net.JoinHostPort(host, port))
}

// answer is what came back.
type answer struct {
	status int // 0 when there was no answer; then err says why
	err    error
	header http.Header
	body   string
	echoed sample.Echoed
	took   time.Duration
}

func (a answer) String() string {
	if a.err != nil {
		return a.err.Error()
	}
	return fmt.Sprintf("%d from %q (%s): %.200s", a.status, a.echoed.Hostname, a.echoed.Version, a.body)
}

func (w *workload) get(url string, headers ...string) answer {
	return w.do(http.MethodGet, url, headers...)
}

// do sends a request; a header is "name: value".
func (w *workload) do(method, url string, headers ...string) answer {
	request, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	if err != nil {
		return answer{err: err}
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if strings.EqualFold(name, "host") {
			request.Host = value
		}
		request.Header.Set(name, value)
	}
	started := time.Now()
	response, err := w.http.Do(request)
	if err != nil {
		return answer{err: err, took: time.Since(started)}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	a := answer{
		status: response.StatusCode,
		err:    err,
		header: response.Header,
		body:   string(body),
		took:   time.Since(started),
	}
	_ = json.Unmarshal(body, &a.echoed) // an answer that is not the echo's has none
	return a
}

// until asks again and again until the answer is as wanted.
func (w *workload) until(t *testing.T, url, want string, is func(answer) bool, headers ...string) answer {
	t.Helper()
	var last answer
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for last = w.get(url, headers...); !is(last); last = w.get(url, headers...) {
		if time.Now().After(deadline) {
			require.FailNow(t, url+": want "+want, "got %s\n%s", last, w.c.describe())
		}
		<-tick.C
	}
	return last
}

func ok(a answer) bool { return a.status == http.StatusOK }

func version(v string) func(answer) bool {
	return func(a answer) bool { return ok(a) && a.echoed.Version == v }
}
