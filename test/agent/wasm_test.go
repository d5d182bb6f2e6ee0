package agent

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/wasmtest"
)

// push pushes a plugin to a registry.
func push(t *testing.T, image string, module []byte) {
	t.Helper()
	ref, err := name.ParseReference(image)
	require.NoError(t, err)
	layer := static.NewLayer(module, "application/vnd.module.wasm.content.layer.v1+wasm")
	of, err := mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, of))
}

// echoes starts an application that answers with a header of the request, and returns its address.
func echoes(t *testing.T, header string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+r.Header.Get(header))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// TestTheAgentFetchesModules: a plugin's module comes from a registry, and requests pass it. While
// the registry is away nothing passes, and when it is back the plugin is in force without a change
// of its object; so it is after an edit that fetches another one.
func TestTheAgentFetchesModules(t *testing.T) {
	p := newPod(t)
	var away atomic.Bool
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	push(t, host+"/plugin:v1", wasmtest.AddsHeader("x-plugin", "first"))
	push(t, host+"/plugin:v2", wasmtest.AddsHeader("x-plugin", "second"))
	away.Store(true)

	manifests := p.manifests(echoes(t, "x-plugin"))
	plugin := func(tag string) {
		file := filepath.Join(manifests, "plugin.yaml")
		require.NoError(t, os.WriteFile(file+".new", fmt.Appendf(nil, `
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: adds, namespace: default}
spec:
  selector: {matchLabels: {app: edge}}
  url: oci://%s/plugin:%s
`, host, tag), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	plugin("v1")
	lateen := lateenserve.Start(t, lateenserve.Options{Binary: binaries.lateen, Args: []string{
		"--config-dir", manifests, "--state-dir", t.TempDir(), "--xds-address", "127.0.0.1:0",
	}})
	p.at(lateen.XDS)
	c := p.run("LATEEN_WASM_PRIVATE_NETWORKS=127.0.0.0/8")
	c.await()
	status := func() int {
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", p.ports.web))
		if err != nil {
			return 0
		}
		defer func() { _ = response.Body.Close() }()
		return response.StatusCode
	}
	require.Eventually(t, func() bool { return status() == http.StatusForbidden }, patience, 20*time.Millisecond)
	require.Contains(t, p.get(p.ports.status, "/metrics"),
		`istio_agent_wasm_remote_fetch_count{result="manifest_failure"} `)

	away.Store(false)
	require.Equal(t, "hello first", p.get(p.ports.web, "/"))
	plugin("v2")
	require.Eventually(t, func() bool { return p.get(p.ports.web, "/") == "hello second" }, patience,
		20*time.Millisecond)
	told := p.get(p.ports.status, "/metrics")
	require.Contains(t, told, "istio_agent_wasm_cache_entries 2\n")
	require.Contains(t, told, `istio_agent_wasm_config_conversion_count{result="success"} 2`)
	require.NoError(t, c.stop(), c.log.String())

	// Without the control plane the proxy runs the module that it has on disk.
	lateen.Stop(t)
	away.Store(true)
	c = p.run()
	c.await()
	require.Equal(t, "hello second", p.get(p.ports.web, "/"))
	require.NoError(t, c.stop(), c.log.String())
}
