package sample

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// maxDelay is the longest delay of /delay.
const maxDelay = time.Minute

// handler answers HTTP. Its only state is whether it claims to be healthy, and a count for /fail.
type handler struct {
	o         Options
	client    *client
	unhealthy atomic.Bool
	count     atomic.Uint64
}

func newHandler(o Options) http.Handler {
	h := &handler{o: o, client: newClient(o.Proxy)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", h.health)
	mux.HandleFunc("POST /health", h.setHealth)
	mux.HandleFunc("/status/{code}", h.status)
	mux.HandleFunc("/delay/{ms}", h.delay)
	mux.HandleFunc("/fail", h.fail)
	mux.HandleFunc("/echo", h.echo)
	mux.HandleFunc("GET /upgrade", h.upgrade)
	switch o.Role {
	case ProductPage:
		h.addProductPage(mux)
	case Details:
		mux.HandleFunc("GET /details/{id}", h.details)
	case Reviews:
		mux.HandleFunc("GET /reviews/{id}", h.reviews)
	case Ratings:
		mux.HandleFunc("GET /ratings/{id}", h.ratings)
	case Echo:
		mux.HandleFunc("/", h.echo)
	}
	return h.withIdentity(mux)
}

// withIdentity adds the host and the version of this process to every answer.
func (h *handler) withIdentity(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-sample-host", h.o.Hostname)
		w.Header().Set("x-sample-version", h.o.Version)
		next.ServeHTTP(w, r)
	})
}

func (h *handler) health(w http.ResponseWriter, _ *http.Request) {
	if h.unhealthy.Load() {
		http.Error(w, "sick, since someone posted /health?ok=false", http.StatusServiceUnavailable)
		return
	}
	writeJSON(w, map[string]string{"status": "ok"})
}

// setHealth makes /health fail or succeed: ?ok=false, ?ok=true.
func (h *handler) setHealth(w http.ResponseWriter, r *http.Request) {
	ok, err := strconv.ParseBool(r.URL.Query().Get("ok"))
	if err != nil {
		http.Error(w, "want ?ok=true or ?ok=false", http.StatusBadRequest)
		return
	}
	h.unhealthy.Store(!ok)
	w.WriteHeader(http.StatusNoContent)
}

// status answers with the status asked for.
func (h *handler) status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.PathValue("code"))
	if err != nil || code < 200 || code > 599 {
		http.Error(w, "want /status/CODE with a code from 200 to 599", http.StatusBadRequest)
		return
	}
	w.WriteHeader(code)
}

// delay answers like the echo, after some milliseconds.
func (h *handler) delay(w http.ResponseWriter, r *http.Request) {
	ms, err := strconv.Atoi(r.PathValue("ms"))
	if err != nil || ms < 0 || time.Duration(ms)*time.Millisecond > maxDelay {
		http.Error(w, "want /delay/MS with at most 60000 milliseconds", http.StatusBadRequest)
		return
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-r.Context().Done():
	case <-t.C:
		h.echo(w, r)
	}
}

// fail fails a fixed share of requests, spread evenly, so that tests can rely on it: of every
// hundred in a row, ratio×100 fail with 503. ?ratio=1 fails always, ?code= sets another status.
func (h *handler) fail(w http.ResponseWriter, r *http.Request) {
	ratio, err := strconv.ParseFloat(r.URL.Query().Get("ratio"), 64)
	if err != nil || ratio < 0 || ratio > 1 {
		http.Error(w, "want ?ratio= from 0 to 1", http.StatusBadRequest)
		return
	}
	code := http.StatusServiceUnavailable
	if c, err := strconv.Atoi(r.URL.Query().Get("code")); err == nil && c >= 400 && c <= 599 {
		code = c
	}
	if failsNow(h.count.Add(1), ratio) {
		http.Error(w, "failed as asked", code)
		return
	}
	h.echo(w, r)
}

// failsNow reports whether the n-th request fails. Of the first n it is true for ratio×n, rounded
// down.
func failsNow(n uint64, ratio float64) bool {
	permille := uint64(ratio*1000 + 0.5)
	return n*permille/1000 != (n-1)*permille/1000
}

// Echoed is the answer of the echo.
type Echoed struct {
	Hostname string      `json:"hostname"`
	Role     string      `json:"role"`
	Version  string      `json:"version"`
	Method   string      `json:"method"`
	Host     string      `json:"host"`
	Path     string      `json:"path"`
	Query    string      `json:"query,omitempty"`
	Protocol string      `json:"protocol"`
	Remote   string      `json:"remote"`
	Headers  http.Header `json:"headers"`
	Calls    []Result    `json:"calls,omitempty"`
}

// Result is the outcome of a call that the program made.
type Result struct {
	URL    string          `json:"url"`
	Status int             `json:"status,omitempty"`
	Error  string          `json:"error,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
}

func (h *handler) echo(w http.ResponseWriter, r *http.Request) {
	e := Echoed{
		Hostname: h.o.Hostname,
		Role:     h.o.Role,
		Version:  h.o.Version,
		Method:   r.Method,
		Host:     r.Host,
		Path:     r.URL.Path,
		Query:    r.URL.RawQuery,
		Protocol: r.Proto,
		Remote:   r.RemoteAddr,
		Headers:  r.Header,
	}
	for _, c := range h.o.Calls {
		if c.Path == r.URL.Path {
			e.Calls = append(e.Calls, h.client.result(r, c.URL))
		}
	}
	kind := r.Header.Get("content-type")
	if kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+") {
		writeMessage(w, e)
		return
	}
	writeJSON(w, e)
}

// writeMessage answers a call of gRPC with one message, which holds JSON.
func writeMessage(w http.ResponseWriter, v any) {
	message, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("content-type", "application/grpc")
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	const notCompressed = 0
	frame := binary.BigEndian.AppendUint32([]byte{notCompressed}, uint32(len(message)))
	_, _ = w.Write(append(frame, message...)) // the client has gone
}

// upgrade takes the connection over for the protocol that the client asks for, as a server of
// WebSockets does, and sends back what comes.
func (h *handler) upgrade(w http.ResponseWriter, r *http.Request) {
	protocol := r.Header.Get("upgrade")
	if protocol == "" {
		http.Error(w, "want an upgrade", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	const switches = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n"
	if _, err := fmt.Fprintf(conn, switches, protocol); err == nil {
		_, _ = io.Copy(conn, buffered) // until the client closes
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("content-type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}
