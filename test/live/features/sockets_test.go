package features

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestServiceEntryLeadsToAUnixSocket: an endpoint of a ServiceEntry may be a Unix socket on the
// caller's machine.
func TestServiceEntryLeadsToAUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "socket") // t.TempDir is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "app.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "by socket: ", r.Host)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	m := livemesh.Start(t, livemesh.File("base.yaml",
		livemesh.NewEcho("client", "v1"), livemesh.Service("client", "http:80:8080"),
		livemesh.Object("ServiceEntry socket", fmt.Sprintf(`
hosts: [socket.test]
ports: [{number: 80, name: http, protocol: HTTP}]
resolution: STATIC
endpoints: [{address: "unix://%s"}]
`, socket))))
	m.RequireNoProblems()
	a := m.Client("client-v1").Get("http://socket.test/")
	require.Equal(t, http.StatusOK, a.Status)
	require.Equal(t, "by socket: socket.test", a.Body)
}
