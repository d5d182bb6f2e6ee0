package local

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// admin is a client of one Envoy's admin interface.
type admin struct {
	base string
}

func adminAt(outbound netip.Addr) *admin {
	return &admin{base: "http://" + netip.AddrPortFrom(outbound, AdminPort).String()}
}

// envoyReadiness returns the probe of an Envoy: it is ready when it has all that it needs to serve.
func envoyReadiness(outbound netip.Addr) probe {
	ready := &corev1.HTTPGetAction{Path: "/ready"}
	return probe{
		check:  httpCheck(ready, netip.AddrPortFrom(outbound, AdminPort)),
		period: 2 * time.Second, timeout: time.Second, success: 1, failure: 3,
	}
}

// failHealthCheck makes Envoy ask its clients to leave: it adds "Connection: close" or GOAWAY to
// its answers from then on.
func (a *admin) failHealthCheck(ctx context.Context) {
	body, err := a.call(ctx, http.MethodPost, "/healthcheck/fail")
	if err == nil {
		_ = body.Close()
	}
}

// awaitIdle waits until no request is in flight and no TCP connection to the app is open. It gives
// up if ctx ends or Envoy does not answer.
func (a *admin) awaitIdle(ctx context.Context) {
	for {
		body, err := a.call(ctx, http.MethodGet, "/stats?usedonly&filter=(downstream|upstream)_rq_active$")
		if err != nil {
			return
		}
		idle := isIdle(body)
		_ = body.Close()
		if idle || !sleep(ctx, fastPeriod/2) {
			return
		}
	}
}

func (a *admin) call(ctx context.Context, method, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := probeClient.Do(req)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// isIdle reads gauges as the admin interface prints them, "NAME: VALUE" a line. It counts requests,
// not HTTP connections, which may idle: those that the app makes and gets. To the app's own ports
// it counts TCP connections too, which Envoy reports as requests to the cluster (its statistics of
// TCP proxies have no such gauge). It ignores the admin interface itself.
func isIdle(stats io.Reader) bool {
	lines := bufio.NewScanner(stats)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		http := strings.HasPrefix(name, "http.") && !strings.HasPrefix(name, "http.admin.") &&
			strings.HasSuffix(name, "downstream_rq_active")
		inbound := strings.HasPrefix(name, "cluster.inbound|") && strings.HasSuffix(name, "upstream_rq_active")
		if (http || inbound) && value != "0" {
			return false
		}
	}
	return lines.Err() == nil
}
