package envoy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// adminTimeout bounds a question to the admin interface, which answers in milliseconds.
	adminTimeout = 3 * time.Second
	// maxAnswer bounds what is read of an answer; what the agent asks for is some kilobytes.
	maxAnswer = 4 << 20
)

// Admin is a client of Envoy's admin interface.
type Admin struct {
	base string
	http http.Client
}

// NewAdmin returns a client of the admin interface on a Unix socket.
func NewAdmin(socket string) *Admin {
	return &Admin{
		base: "http://admin",
		// A connection for each of a few questions: one kept open would count as a client.
		http: http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", socket)
			},
		}},
	}
}

// Drain makes Envoy ask its clients to leave. Inbound alone leaves outbound listeners, which the
// application needs until it ends. Envoy closes the listeners after its drain time, or never with
// keep.
func (a *Admin) Drain(ctx context.Context, inbound, keep bool) error {
	path := "/drain_listeners?"
	if inbound {
		path += "inboundonly&"
	}
	path += "graceful"
	if keep {
		path += "&skip_exit"
	}
	_, err := a.call(ctx, http.MethodPost, path)
	return err
}

// Stats returns the statistics whose names match the expression, as "name: value" lines.
func (a *Admin) Stats(ctx context.Context, filter string) (string, error) {
	return a.call(ctx, http.MethodGet, "/stats?usedonly&filter="+filter)
}

func (a *Admin) call(ctx context.Context, method, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, a.base+path, nil)
	if err != nil {
		return "", err
	}
	response, err := a.http.Do(request)
	if err != nil {
		return "", fmt.Errorf("admin interface of Envoy: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("admin interface of Envoy: %s %s: %w", method, path, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("admin interface of Envoy: %s %s: %s", method, path, response.Status)
	}
	return string(body), nil
}

// connections sums downstream_cx_active per listener. It skips per-worker statistics, which are
// parts of others, and the agent's own ports, which serve readiness and metrics.
func connections(stats string, own []uint16) int {
	total := 0
	for line := range strings.Lines(stats) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		listener, isListener := strings.CutPrefix(strings.TrimSuffix(name, ".downstream_cx_active"), "listener.")
		if !ok || !isListener || isOwn(listener, own) {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			continue
		}
		total += int(n)
	}
	return total
}

func isOwn(listener string, own []uint16) bool {
	if strings.HasPrefix(listener, "admin") || strings.Contains(listener, "worker_") {
		return true
	}
	for _, port := range own {
		if strings.HasSuffix(listener, "_"+strconv.Itoa(int(port))) {
			return true
		}
	}
	return false
}
