package inspect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

func TestDescribePod(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/syncz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `[{"proxy": "web-0.shop", "connected_at": "2026-01-02T03:04:05Z"}]`)
	})
	mux.HandleFunc("/debug/problems", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `[]`) })
	mux.HandleFunc("/debug/describe", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("kind") != "pod" || q.Get("namespace") != "shop" || q.Get("name") != "web-0" {
			http.Error(w, "not known", http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprint(w, `{"kind": "Pod", "namespace": "shop", "name": "web-0", "labels": {"app": "web"},
			"mutualTLS": "STRICT", "mutualTLSPorts": {"9000": "DISABLE"},
			"applied": [{"kind": "AuthorizationPolicy", "namespace": "shop", "name": "deny", "how": "DENY"}],
			"services": [{"kind": "Service", "namespace": "shop", "name": "web", "endpoints": {"healthy": 1, "all": 2},
				"ports": [{"name": "http", "port": 80, "protocol": "HTTP", "target": "8080"}]}],
			"problems": ["warning: it is odd"]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	cluster := podsAt{"istiod-0": server.Listener.Addr().String()}
	command := func(out *terminal.Writer, r *remote.Remote) *cobra.Command { return describeCommand(out, r) }

	out, err := output(t, cluster, command, "pod", "web-0.shop")
	require.NoError(t, err)
	require.Equal(t, lines("Pod shop/web-0",
		"  labels: app=web",
		"  mutual TLS: STRICT, port 9000 DISABLE",
		"  AuthorizationPolicy: shop/deny (DENY)",
		"  Service shop/web",
		"    port: 80 http HTTP -> 8080",
		"    endpoints: 2, of which 1 healthy",
		"proxy: connected to istiod-0 since 2026-01-02T03:04:05Z",
		"warning: it is odd"), out)

	out, err = output(t, cluster, command, "po", "web-0.shop", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"replica": "istiod-0"`)
	_, err = output(t, cluster, command, "service", "web")
	require.ErrorContains(t, err, "not known")
}
