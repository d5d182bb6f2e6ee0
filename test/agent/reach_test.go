package agent

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// TestNoRouteReachesTheAdminInterface: routes of a gateway that lead to loopback, by address or by
// a name, reach neither Envoy's admin interface nor the POSTs of the agent. A process of the Pod
// does.
func TestNoRouteReachesTheAdminInterface(t *testing.T) {
	p := newPod(t)
	dir := p.manifests(application(t))
	text := ""
	for name, port := range map[string]int{"admin": p.ports.admin, "status": p.ports.status} {
		for _, resolution := range []string{"STATIC", "DNS"} {
			address := "127.0.0.1"
			if resolution == "DNS" {
				address = "localhost"
			}
			text += fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s-%[2]s, namespace: default}
spec:
  hosts: [%[1]s-%[2]s.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: %[3]s
  endpoints: [{address: %[4]s, ports: {http: %[5]d}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s-%[2]s, namespace: default}
spec:
  hosts: [%[1]s-%[2]s.test]
  gateways: [edge]
  http: [{route: [{destination: {host: %[1]s-%[2]s.test, port: {number: 80}}}]}]
`, name, strings.ToLower(resolution), resolution, address, port)
		}
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "reach.yaml"), []byte(text), 0o600))
	lateen := lateenserve.Start(t, lateenserve.Options{Binary: binaries.lateen, Args: []string{
		"--config-dir", dir, "--state-dir", t.TempDir(), "--xds-address", "127.0.0.1:0",
	}})
	p.at(lateen.XDS)
	c := p.run()
	c.await()
	require.Equal(t, "hello", p.get(p.ports.web, "/"))

	call := func(method, host, path string) (int, string) {
		r, err := http.NewRequest(method, fmt.Sprintf("http://127.0.0.1:%d%s", p.ports.web, path), http.NoBody)
		require.NoError(t, err)
		r.Host = host
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
	for _, resolution := range []string{"static", "dns"} {
		for _, ask := range []struct{ method, name, path string }{
			{http.MethodGet, "admin", "/config_dump"},
			{http.MethodPost, "admin", "/quitquitquit"},
			{http.MethodPost, "status", "/quitquitquit"},
			{http.MethodPost, "status", "/drain"},
			{http.MethodPost, "status", "/app-lifecycle/web/prestopz"},
		} {
			code, body := call(ask.method, ask.name+"-"+resolution+".test", ask.path)
			require.Equal(t, http.StatusForbidden, code, "%v %s: %s", ask, resolution, body)
			require.Contains(t, body, "the caller is the proxy itself")
		}
	}
	require.Contains(t, p.get(p.ports.status, "/metrics"), "\nlateen_agent_refused_callers_total 10\n")

	require.Contains(t, p.get(p.ports.admin, "/config_dump"), "envoy.admin.v3.BootstrapConfigDump")
	out, err := exec.Command(binaries.agent, "request", "--debug-port", strconv.Itoa(p.ports.admin), "POST",
		"/logging?level=info").CombinedOutput()
	require.NoError(t, err, string(out))
	sockets, err := filepath.Glob(filepath.Join(p.dir, "etc/istio/proxy/admin-*"))
	require.NoError(t, err)
	require.Len(t, sockets, 1)
	info, err := os.Stat(sockets[0])
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, info.Mode())
	status := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.ports.status))
	response, err := http.Post("http://"+status+"/quitquitquit", "", http.NoBody)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.NoError(t, c.wait(), c.log.String())
}
