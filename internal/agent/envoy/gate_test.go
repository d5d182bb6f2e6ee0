package envoy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGatePassesOnWhatMayAsk(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "admin")
	admin, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body)
	})}
	go func() { _ = server.Serve(admin) }()
	defer func() { _ = server.Close() }()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	may := make(chan error, 10)
	refused := make(chan error, 10)
	gate := Gate{
		Socket: socket,
		Check: func(from, to netip.AddrPort) error {
			if to.String() != l.Addr().String() || !from.Addr().IsLoopback() {
				return errors.New("other addresses")
			}
			return <-may
		},
		Refused: func(err error) { refused <- err },
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- gate.Run(ctx, l) }()
	client := http.Client{Transport: &http.Transport{}}
	post := func() (int, string) {
		response, err := client.Post("http://"+l.Addr().String()+"/drain?graceful", "text/plain", http.NoBody)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	denied := errors.New("the caller is the proxy itself")
	may <- denied
	code, body := post()
	require.Equal(t, http.StatusForbidden, code)
	require.Equal(t, denied.Error()+"\n", body)
	require.Equal(t, denied, <-refused)
	may <- nil
	for range 3 { // on one connection
		code, body = post()
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "POST /drain?graceful ", body)
	}
	client.CloseIdleConnections()
	require.NoError(t, server.Close())
	may <- nil
	code, _ = post()
	require.Equal(t, http.StatusServiceUnavailable, code)
	cancel()
	require.NoError(t, <-ended)
}
