package change

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// await polls for a condition that nobody announces.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !condition() {
		select {
		case <-deadline:
			require.FailNow(t, "it did not come about", what)
		case <-again.C:
		}
	}
}

// outbound is the address at which the Envoy of a Deployment's only pod takes its app's calls.
func (m *mesh) outbound(deployment string) string {
	m.t.Helper()
	pods := m.running(deployment)
	return outboundOf(pods[only(m.t, pods)])
}

func outboundOf(pod string) string { return strings.Replace(pod, "127.32.", "127.96.", 1) }

// admin asks an Envoy's admin interface; false if it does not answer.
func (m *mesh) admin(outbound, path string) (string, bool) {
	m.t.Helper()
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	status, body, err := get(m.t.Context(), client, "http://"+outbound+":15000"+path, nil)
	return string(body), err == nil && status == http.StatusOK
}

// awaitHost waits until the Envoys that the load goes through have a host of a service, on the
// thread that serves.
func (z *zero) awaitHost(service string) {
	z.t.Helper()
	healthy := regexp.MustCompile(regexp.QuoteMeta("outbound|9080||"+service+".default.svc.cluster.local::127.") +
		`\S+::health_flags::healthy\n`)
	has := func(pod string) bool {
		clusters, ok := z.admin(outboundOf(pod), "/clusters")
		return ok && healthy.MatchString(clusters)
	}
	await(z.t, service+" in /clusters", func() bool {
		for _, pod := range z.running("ingressgateway") {
			if !has(pod) {
				return false
			}
		}
		return has(z.running("caller")[only(z.t, z.running("caller"))])
	})
	z.disturb(z.outbound("caller") + ":15080")
	for _, pod := range z.running("ingressgateway") {
		z.disturb(pod + ":8080")
	}
}

// disturb returns when the worker thread behind a listener has all that its main thread has handed
// to it: the thread takes what is ready in rounds, and the round that answers the second of two
// connections begins after the one that answered the first. An Envoy that has gone has nothing to
// hand over.
func (z *zero) disturb(address string) {
	z.t.Helper()
	for range 2 {
		conn, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			return
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		_, _ = fmt.Fprint(conn, "settled?\r\n\r\n")
		_, _ = conn.Read(make([]byte, 64))
		_ = conn.Close()
	}
}

// counter is the sum of the counters of an Envoy whose names fit a pattern. One that was never used
// is not there.
func (m *mesh) counter(outbound, pattern string) (sum int) {
	m.t.Helper()
	stats, ok := m.admin(outbound, "/stats?usedonly&filter="+url.QueryEscape(pattern))
	require.True(m.t, ok, "statistics of %s", outbound)
	lines := bufio.NewScanner(strings.NewReader(stats)) // "NAME: VALUE"
	for lines.Scan() {
		_, value, _ := strings.Cut(lines.Text(), ": ")
		n, err := strconv.Atoi(value)
		require.NoError(m.t, err, lines.Text())
		sum += n
	}
	return sum
}

// retries tells how many attempts Envoys have made again: those that run now.
func (z *zero) retries() string {
	z.t.Helper()
	var parts []string
	for _, deployment := range []string{"caller", "ingressgateway", "front"} {
		n := 0
		for _, pod := range z.running(deployment) {
			n += z.counter(outboundOf(pod), `^cluster\.outbound.*\.upstream_rq_retry$`)
		}
		parts = append(parts, fmt.Sprintf("%s %d", deployment, n))
	}
	return strings.Join(parts, ", ") + " (of the pods that run at the end)"
}
