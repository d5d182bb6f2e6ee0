package status

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// errElsewhere says that a caller is not on this machine.
var errElsewhere = errors.New("only callers on this machine are answered")

// loopback answers callers on this machine alone.
func loopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !from.Addr().Unmap().IsLoopback() {
			http.Error(w, errElsewhere.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// callers answers processes of this machine other than Envoy, and whoever calls from other
// addresses that may.
func (s *Server) callers(others []netip.Prefix, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.mayAsk(others, r); err != nil {
			s.o.Refused(fmt.Errorf("%s: %w", r.URL.Path, err))
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) mayAsk(others []netip.Prefix, r *http.Request) error {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return errElsewhere
	}
	own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch {
	case from.Addr().Unmap().IsLoopback() && own != nil:
		to, err := netip.ParseAddrPort(own.String())
		if err != nil {
			return errElsewhere
		}
		return s.o.Check(from, to)
	case len(others) == 0:
		return errElsewhere
	}
	for _, p := range others {
		if p.Contains(from.Addr().Unmap()) {
			return nil
		}
	}
	return fmt.Errorf("%s is none of the node's addresses; want one of HOST_IP, the Pod's gateway or "+
		"LATEEN_KUBELET_ADDRESSES", from.Addr().Unmap())
}
