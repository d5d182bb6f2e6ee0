package app

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHTTPServersLimitTheirClients: the server of the monitoring and health ports has a deadline
// for each stage of a connection, and refuses a header that is too long.
func TestHTTPServersLimitTheirClients(t *testing.T) {
	s := newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "served")
	}))
	require.Positive(t, s.ReadHeaderTimeout)
	require.Positive(t, s.ReadTimeout)
	require.Positive(t, s.WriteTimeout)
	require.Positive(t, s.IdleTimeout)
	require.Positive(t, s.MaxHeaderBytes)

	l, ended := make(pipes), make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	})
	// ask sends a request whose header has a field of a length.
	ask := func(length int) int {
		client, server := net.Pipe()
		defer func() { _ = client.Close() }()
		l <- server
		long := strings.Repeat("x", length)
		go func() { _, _ = io.WriteString(client, "GET / HTTP/1.1\r\nHost: test\r\nX-Long: "+long+"\r\n\r\n") }()
		response, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, ask(32<<10))
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, ask(80<<10))
}

// pipes is a listener of connections in memory. Unlike TCP, they lose no answer when the server
// closes one of which it has not read all.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }
