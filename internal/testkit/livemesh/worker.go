package livemesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lateen-mesh/lateen/internal/local"
)

const proxyContainer = "istio-proxy"

func hasEnvoy(p local.PodStatus) bool {
	return slices.ContainsFunc(p.Processes, func(s local.ProcessStatus) bool {
		return s.Name == proxyContainer && s.PID != 0
	})
}

// warmingTime is how long a listener or cluster may warm before Settle goes on without it: a little
// more than a proxy waits for a certificate from its agent. One whose certificate never comes warms
// for ever.
const warmingTime = 2500 * time.Millisecond

// warmingGauges selects the statistics of Envoy that count listeners and clusters that warm.
const warmingGauges = `^(listener_manager\.total_listeners_warming|cluster_manager\.warming_clusters)$`

// awaitWarm returns when an Envoy has put in force all that it acknowledged: a listener or cluster
// with a new certificate replaces the one before once it has the certificate. It waits no longer
// than warmingTime.
func awaitWarm(ctx context.Context, p local.PodStatus) error {
	for began := time.Now(); time.Since(began) < warmingTime; {
		warming, err := ask(ctx, p, "stats?filter="+url.QueryEscape(warmingGauges))
		if err != nil {
			return err
		}
		if !strings.ContainsAny(string(warming), "123456789") { // each count is 0
			return nil
		}
		select {
		case <-time.After(pollEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// ask returns what the admin interface of an Envoy answers.
func ask(ctx context.Context, p local.PodStatus, path string) ([]byte, error) {
	at := fmt.Sprintf("http://%s/%s", netip.AddrPortFrom(p.Outbound, local.AdminPort), path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(resp.Body)
}

// awaitWorker returns when an Envoy's worker thread has all that its main thread acknowledged. The
// updates stand in the worker's queue by then. It takes what is ready in rounds: the round that
// answers the second request begins after the one that answered the first, and so after all that
// stood in the queue before.
func awaitWorker(ctx context.Context, p local.PodStatus) error {
	at := netip.AddrPortFrom(p.Outbound, local.HTTPProxyPort)
	if p.Gateway {
		var err error
		if at, err = gatewayListener(ctx, p); err != nil || !at.IsValid() {
			return err
		}
	}
	for range 2 {
		if err := disturb(ctx, at); err != nil {
			return err
		}
	}
	return nil
}

// disturb sends what is neither HTTP nor TLS, which the worker refuses by itself: it answers, or
// closes the connection.
func disturb(ctx context.Context, at netip.AddrPort) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte("settled?\r\n\r\n")); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 64)); err != nil && !errors.Is(err, io.EOF) &&
		!errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("%s does not answer: %w", at, err)
	}
	return nil
}

// gatewayListener is the address of that of a gateway's listeners with the lowest port, which
// should be one of HTTP or TLS; the zero value if it has none.
func gatewayListener(ctx context.Context, p local.PodStatus) (netip.AddrPort, error) {
	answer, err := ask(ctx, p, "listeners?format=json")
	if err != nil {
		return netip.AddrPort{}, err
	}
	var list struct {
		Statuses []struct {
			Local struct {
				Socket struct {
					Address string `json:"address"`
					Port    uint16 `json:"port_value"`
				} `json:"socket_address"`
			} `json:"local_address"`
		} `json:"listener_statuses"`
	}
	if err := json.Unmarshal(answer, &list); err != nil || len(list.Statuses) == 0 {
		return netip.AddrPort{}, err
	}
	socket := list.Statuses[0].Local.Socket
	for _, s := range list.Statuses {
		if at := s.Local.Socket; at.Port != 0 && (at.Port < socket.Port || socket.Port == 0) { // not a Unix socket
			socket = at
		}
	}
	addr, err := netip.ParseAddr(socket.Address)
	return netip.AddrPortFrom(addr, socket.Port), err
}
