package admin

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guarded lets requests through that come from a loopback address and that no foreign web page
// makes. A browser on this machine has a loopback address too, whatever page it shows.
func (h handler) guarded(f http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, check := range []func(*http.Request) error{onLoopback, h.ownHost, sameOrigin} {
			if err := check(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		f(w, r)
	}
}

// closed answers in place of a page where there are none over HTTP.
func closed(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "ENABLE_DEBUG_ON_HTTP is false: this is answered over xDS alone, to callers with an identity",
		http.StatusForbidden)
}

// onLoopback refuses clients with any other address.
func onLoopback(r *http.Request) error {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("this is answered on loopback addresses only: use kubectl port-forward")
	}
	return nil
}

// ownHost refuses names that are not ours. The owner of another name can let it lead to a loopback
// address (DNS rebinding): then this server has the same origin as the page of that name. With an
// IP address nobody can do that.
func (h handler) ownHost(r *http.Request) error {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return nil
	}
	if name == "localhost" || slices.Contains(h.Hosts, name) {
		return nil
	}
	return fmt.Errorf("the host %.64q is no name of this control plane; want localhost, an IP address, "+
		"or a name of lateen serve --debug-host", r.Host)
}

// sameOrigin refuses requests that a browser makes for another page, whether that page may read the
// answer or not.
func sameOrigin(r *http.Request) error {
	if origin := r.Header.Get("Origin"); origin != "" && !strings.EqualFold(origin, "http://"+r.Host) {
		return fmt.Errorf("a page of %.64q asks for this; want a page of this server, or no browser", origin)
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
		return nil
	default:
		return fmt.Errorf("a page of another server asks for this (Sec-Fetch-Site: %.64q); want the address typed in, "+
			"or no browser", site)
	}
}
