package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"
)

// limits bound what requests hold until they are answered.
type limits struct {
	// patience is how long a request's body may take to arrive.
	patience time.Duration
	// requests is how many requests one peer may have at a time. An API server has 200 that write
	// at a time by default.
	requests int
	// peerBytes and bytes bound the bodies of one peer and of all of them.
	peerBytes, bytes int64
	// peerPlaces and places are how many objects are checked at a time, of one peer and in all.
	// Further requests wait, with their bodies, for as long as the API server waits.
	peerPlaces, places int
}

// defaultLimits leave each of several API servers enough, whatever one other peer does.
var defaultLimits = limits{
	patience:   5 * time.Second,
	requests:   256,
	peerBytes:  24 << 20,
	bytes:      64 << 20,
	peerPlaces: 4,
	places:     8,
}

// intake counts what requests hold. It keeps nothing of a peer without requests.
type intake struct {
	limits
	checking chan struct{} // one entry for each object that is being checked
	mu       sync.Mutex
	held     int64 // bytes of all bodies
	peers    map[netip.Addr]*peer
}

// peer is one client address with at least one request.
type peer struct {
	requests int
	held     int64         // bytes of its bodies
	checking chan struct{} // one entry for each of its objects that is being checked
}

func newIntake(l limits) *intake {
	return &intake{limits: l, checking: make(chan struct{}, l.places), peers: map[netip.Addr]*peer{}}
}

// httpError is a reason not to decide, with its HTTP status.
type httpError struct {
	code    int
	message string
}

func (e *httpError) Error() string { return e.message }

func failure(code int, format string, args ...any) error {
	return &httpError{code, fmt.Sprintf(format, args...)}
}

// reservation is what one request holds. One goroutine uses it.
type reservation struct {
	in   *intake
	from netip.Addr
	peer *peer
	held int64 // bytes of its body
}

// reserve counts a request, or refuses it if its peer has too many.
func (in *intake) reserve(r *http.Request) (*reservation, error) {
	from := peerOf(r)
	in.mu.Lock()
	defer in.mu.Unlock()
	p := in.peers[from]
	if p == nil {
		p = &peer{checking: make(chan struct{}, in.peerPlaces)}
		in.peers[from] = p
	}
	if p.requests == in.requests {
		return nil, failure(http.StatusTooManyRequests, "%s has %d requests at a time; want fewer", from, p.requests)
	}
	p.requests++
	return &reservation{in: in, from: from, peer: p}, nil
}

// peerOf returns the address of a request's client. All clients without one count as the same.
func peerOf(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	return from.Addr().Unmap()
}

// release gives back what the request holds.
func (h *reservation) release() {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	h.in.held -= h.held
	h.peer.held -= h.held
	if h.peer.requests--; h.peer.requests == 0 {
		delete(h.in.peers, h.from)
	}
}

// hold counts n more bytes of the body, or refuses them. Refused bytes do not count, so that they
// are nobody else's loss.
func (h *reservation) hold(n int64) error {
	h.in.mu.Lock()
	defer h.in.mu.Unlock()
	switch {
	case h.peer.held+n > h.in.peerBytes:
		return failure(http.StatusTooManyRequests, "the requests of %s have more than %d bytes at a time",
			h.from, h.in.peerBytes)
	case h.in.held+n > h.in.bytes:
		return failure(http.StatusServiceUnavailable, "all requests have more than %d bytes at a time", h.in.bytes)
	}
	h.held, h.peer.held, h.in.held = h.held+n, h.peer.held+n, h.in.held+n
	return nil
}

// body reads the body within the time that it may take. A slow client holds up nobody, because the
// request has no place yet.
func (h *reservation) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	deadline := http.NewResponseController(w)
	// Writers of servers can do it, and those of tests have no connection.
	_ = deadline.SetReadDeadline(time.Now().Add(h.in.patience))
	body, err := io.ReadAll(countedReader{http.MaxBytesReader(w, r.Body, maxBody), h})
	var tooLarge *http.MaxBytesError
	var refused *httpError
	switch {
	case err == nil:
		// Else the deadline of the body ends the request while it waits.
		_ = deadline.SetReadDeadline(time.Time{})
		return body, nil
	case errors.As(err, &refused):
	case errors.As(err, &tooLarge):
		err = failure(http.StatusRequestEntityTooLarge, "the review has more than %d bytes", maxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = failure(http.StatusRequestTimeout, "the review has not arrived within %s", h.in.patience)
	default:
		err = failure(http.StatusBadRequest, "the review cannot be read: %v", err)
	}
	w.Header().Set("Connection", "close") // the rest of the body is not waited for
	return nil, err
}

// countedReader counts what is read as held.
type countedReader struct {
	io.Reader
	by *reservation
}

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if refused := c.by.hold(int64(n)); refused != nil {
		return n, refused
	}
	return n, err
}

// takePlace waits for one of the peer's places, and then for one of all. It returns what gives them
// back.
func (h *reservation) takePlace(ctx context.Context) (leave func(), err error) {
	busy := failure(http.StatusServiceUnavailable, "too many requests at a time")
	select {
	case h.peer.checking <- struct{}{}:
	case <-ctx.Done():
		return nil, busy
	}
	select {
	case h.in.checking <- struct{}{}:
		return func() { <-h.in.checking; <-h.peer.checking }, nil
	case <-ctx.Done():
		<-h.peer.checking
		return nil, busy
	}
}
