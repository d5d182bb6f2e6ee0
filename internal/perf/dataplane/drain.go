package dataplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/local"
)

// drained returns when no proxy serves connections by what it had before the last change. Envoy
// closes those that are left at the end of the drain, even where another proxy is about to send a
// request over one, which then fails (503 UC): a measurement must not reach over that end.
func (m *mesh) drained(ctx context.Context) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for _, p := range m.runtime.Snapshot().Pods {
		for hasProxy(p) {
			drains, err := draining(ctx, netip.AddrPortFrom(p.Outbound, local.AdminPort))
			if err != nil {
				return fmt.Errorf("pod %s: is it still draining? %w", p.Name, err)
			}
			if !drains {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("pod %s does not end its replaced listeners: %w", p.Name, ctx.Err())
			case <-again.C:
			}
		}
	}
	return nil
}

func hasProxy(p local.PodStatus) bool {
	return slices.ContainsFunc(p.Processes, func(s local.ProcessStatus) bool { return s.Name == envoyProcess })
}

// draining asks an Envoy whether listeners or filter chains of it are replaced and still serve.
func draining(ctx context.Context, admin netip.AddrPort) (bool, error) {
	const gauges = "^listener_manager.total_(listeners|filter_chains)_draining$"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin.String()+"/stats?filter="+gauges, nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	return anyAboveZero(resp.Body)
}

// anyAboveZero reads gauges as the admin interface prints them, "NAME: VALUE" a line.
func anyAboveZero(stats io.Reader) (above bool, err error) {
	lines, n := bufio.NewScanner(stats), 0
	for ; lines.Scan(); n++ {
		_, value, _ := strings.Cut(lines.Text(), ": ")
		above = above || value != "0"
	}
	if n == 0 && lines.Err() == nil {
		return false, fmt.Errorf("its admin interface has no such gauges")
	}
	return above, lines.Err()
}
