package webhook

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gateway is a review of a small object.
func gateway(t *testing.T) []byte {
	return review(t, "CREATE",
		[]byte("apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: a, namespace: b}\n"), nil)
}

// served runs a handler on a port of this machine.
func served(t *testing.T, h *handler) *httptest.Server {
	s := httptest.NewUnstartedServer(nil)
	s.Config = NewServer(h.routes())
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// slowly sends the head of a review and not its body. The server asks for the body, so it waits for
// it when slowly returns.
func slowly(t *testing.T, s *httptest.Server) *bufio.Reader {
	t.Helper()
	connection, err := net.Dial("tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	_, err = fmt.Fprintf(connection, "POST %s HTTP/1.1\r\nHost: lateen\r\nContent-Type: application/json\r\n"+
		"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n", Path)
	require.NoError(t, err)
	answers := bufio.NewReader(connection)
	line, err := answers.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 100 Continue\r\n", line)
	_, err = answers.ReadString('\n')
	require.NoError(t, err)
	return answers
}

func TestSlowClientsTakeNoPlaces(t *testing.T) {
	h := handlerWith(newMetrics())
	h.intake.patience = time.Hour
	s := served(t, h)
	for range 2 * defaultLimits.places {
		slowly(t, s)
	}
	response, err := s.Client().Post(s.URL+Path, "application/json", bytes.NewReader(gateway(t)))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, response.Body.Close())
	s.CloseClientConnections()
}

func TestBodiesHaveADeadline(t *testing.T) {
	h := handlerWith(newMetrics())
	h.intake.patience = time.Millisecond
	answers := slowly(t, served(t, h))
	response, err := http.ReadResponse(answers, nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body) // to its end: the connection is closed
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusRequestTimeout, response.StatusCode)
	require.Equal(t, "the review has not arrived within 1ms\n", string(body))
	require.Equal(t, "galley_validation_http_error{status=408} 1\n", counted(h.Metrics))
	require.Empty(t, h.intake.peers)
}

// pending is a request whose body comes in pieces.
type pending struct {
	body   *io.PipeWriter
	answer chan int
}

// begin sends the first bytes of a body. It returns when they have been read, and all but the last
// one counted.
func begin(t *testing.T, h *handler, from string, first []byte) pending {
	t.Helper()
	in, out := io.Pipe()
	p := pending{out, make(chan int, 1)}
	go func() {
		r := httptest.NewRequest(http.MethodPost, Path, in)
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		h.routes().ServeHTTP(w, r)
		_ = in.Close() // as a server does
		p.answer <- w.Code
	}()
	for _, part := range [][]byte{first[:len(first)-1], first[len(first)-1:]} {
		_, err := out.Write(part)
		require.NoError(t, err)
	}
	return p
}

// finish sends the rest and returns the status of the answer.
func (p pending) finish(rest []byte) int {
	if len(rest) > 0 {
		_, _ = p.body.Write(rest) // which is refused if the answer is there
	}
	_ = p.body.Close()
	return <-p.answer
}

func TestRequestsOfOnePeerAreLimited(t *testing.T) {
	h := handlerWith(newMetrics())
	h.intake.requests = 2
	body := gateway(t)
	first := begin(t, h, "10.0.0.1:1", body[:1])
	second := begin(t, h, "10.0.0.1:2", body[:1])
	require.Equal(t, http.StatusTooManyRequests, statusOf(h, "10.0.0.1:3", body))
	require.Equal(t, http.StatusOK, statusOf(h, "10.0.0.2:1", body), "another peer is not held up")
	require.Equal(t, http.StatusOK, first.finish(body[1:]))
	require.Equal(t, http.StatusOK, statusOf(h, "10.0.0.1:3", body))
	require.Equal(t, http.StatusOK, second.finish(body[1:]))
	require.Empty(t, h.intake.peers, "nothing is kept of who has gone")
}

func TestBytesOfBodiesAreLimited(t *testing.T) {
	h := handlerWith(newMetrics())
	body := gateway(t)
	h.intake.peerBytes, h.intake.bytes = int64(len(body))*3/2, int64(len(body))*2
	half := len(body) / 2
	first := begin(t, h, "10.0.0.1:1", body[:len(body)-1])
	require.Equal(t, http.StatusTooManyRequests, statusOf(h, "10.0.0.1:2", body))
	second := begin(t, h, "10.0.0.2:1", body[:half])
	require.Equal(t, http.StatusServiceUnavailable, statusOf(h, "10.0.0.3:1", body))
	require.Equal(t, http.StatusOK, first.finish(body[len(body)-1:]))
	require.Equal(t, http.StatusOK, second.finish(body[half:]))
	require.Equal(t, http.StatusOK, statusOf(h, "10.0.0.3:1", body))
	require.Zero(t, h.intake.held)
}

func TestOnePeerDoesNotTakeAllPlaces(t *testing.T) {
	in := newIntake(defaultLimits)
	hold := func(from string) *reservation {
		r := httptest.NewRequest(http.MethodPost, Path, nil)
		r.RemoteAddr = from
		held, err := in.reserve(r)
		require.NoError(t, err)
		return held
	}
	for range defaultLimits.peerPlaces {
		_, err := hold("10.0.0.1:1").takePlace(t.Context())
		require.NoError(t, err)
	}
	waiting := make(chan error, 1)
	fifth := hold("10.0.0.1:2")
	go func() {
		_, err := fifth.takePlace(t.Context())
		waiting <- err
	}()
	for range defaultLimits.places - defaultLimits.peerPlaces {
		_, err := hold("10.0.0.2:1").takePlace(t.Context())
		require.NoError(t, err)
	}
	select {
	case err := <-waiting:
		t.Fatal("a peer has more than its places", err)
	default:
	}
	<-fifth.peer.checking
	<-in.checking
	require.NoError(t, <-waiting)
}

func TestLongContentTypesAreCutInErrors(t *testing.T) {
	h := handlerWith(newMetrics())
	w := post(h.routes(), Path, string(make([]byte, 10000)), nil)
	require.Equal(t, http.StatusUnsupportedMediaType, w.Code)
	require.Less(t, w.Body.Len(), 400)
}

func statusOf(h *handler, from string, body []byte) int {
	r := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	h.routes().ServeHTTP(w, r)
	return w.Code
}

// An API server may speak HTTP/2, where a deadline is one of a stream.
func TestBodiesHaveADeadlineInHTTP2(t *testing.T) {
	h := handlerWith(newMetrics())
	h.intake.patience = time.Millisecond
	s := httptest.NewUnstartedServer(nil)
	s.Config, s.EnableHTTP2 = NewServer(h.routes()), true
	s.StartTLS()
	t.Cleanup(s.Close)
	never, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	response, err := s.Client().Post(s.URL+Path, "application/json", never)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, 2, response.ProtoMajor)
	require.Equal(t, http.StatusRequestTimeout, response.StatusCode)
}
