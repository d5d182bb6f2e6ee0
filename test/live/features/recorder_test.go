package features

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/local/sample"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// recorder is a server of the test's own, outside of the mesh, which remembers what it was asked.
type recorder struct {
	*httptest.Server

	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request) bool
	seen   []*http.Request
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

// ServeHTTP implements http.Handler.
func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.seen = append(r.seen, req)
	answer := r.answer
	r.mu.Unlock()
	if answer != nil && answer(w, req) {
		return
	}
	_ = json.NewEncoder(w).Encode(sample.Echoed{
		Hostname: "recorder",
		Version:  "recorder",
		Path:     req.URL.Path,
		Host:     req.Host,
		Headers:  req.Header,
	})
}

// answers sets what may answer in the place of an echo; then it returns true. A request that Envoy
// has given up may still be under way.
func (r *recorder) answers(by func(w http.ResponseWriter, r *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = by
}

// address is where it listens.
func (r *recorder) address() netip.AddrPort {
	return netip.MustParseAddrPort(strings.TrimPrefix(r.URL, "http://"))
}

// entry is a ServiceEntry for it, at port 80 of a host.
func (r *recorder) entry(host string) string {
	return livemesh.Object("ServiceEntry "+strings.TrimSuffix(host, ".test"), fmt.Sprintf(`
hosts: [%s]
ports: [{number: 80, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: %s, ports: {http: %d}}]
`, host, r.address().Addr(), r.address().Port()))
}

func (r *recorder) requests(path string) []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*http.Request
	for _, req := range r.seen {
		if req.URL.Path == path {
			found = append(found, req)
		}
	}
	return found
}

func (r *recorder) count(path string) int { return len(r.requests(path)) }

// await is the first request for a path, once it has come.
func (r *recorder) await(m *livemesh.Mesh, path string) *http.Request {
	m.Await("a request for "+path, func() bool { return r.count(path) > 0 })
	return r.requests(path)[0]
}

// TestRecorderCountsWhatArrives keeps the recorder honest: a count of 0 means that nothing came.
func TestRecorderCountsWhatArrives(t *testing.T) {
	r := newRecorder(t)
	resp, err := http.Get(r.URL + "/x")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 1, r.count("/x"))
	http.DefaultClient.CloseIdleConnections()
}
