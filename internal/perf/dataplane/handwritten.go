package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/perf/handwritten"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// The Deployments of the Envoys with a hand-written configuration. They are pods without a sidecar,
// so that the mesh starts and ends them.
const (
	minimalClient = "minimal-client"
	minimalServer = "minimal-server"
)

// handwritten returns the address of a path of two Envoys that do what sidecars must do and nothing
// else. It adds them to the mesh.
func (m *mesh) handwritten(ctx context.Context) (string, error) {
	at, err := handwritten.FreeAddresses(2)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(m.o.StateDir, "handwritten")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	var own, peer map[string]any
	if m.o.MutualTLS {
		if own, peer, err = handwritten.Transports(dir); err != nil {
			return "", err
		}
	}
	app := netip.AddrPortFrom(m.pod("server").App, uint16(m.o.Protocol.Port()))
	client, server := m.passing(at[0], at[1]), m.passing(at[1], app)
	client.Clusters[0].Transport, server.Listeners[0].Transport = peer, own
	manifests := ""
	for _, e := range []struct {
		name   string
		config handwritten.Config
	}{{minimalClient, client}, {minimalServer, server}} {
		file := filepath.Join(dir, e.name+".json")
		if err := e.config.Write(file); err != nil {
			return "", err
		}
		manifests += m.o.plainEnvoy(e.name, file)
	}
	if err := m.write("handwritten.yaml", manifests); err != nil {
		return "", err
	}
	err = m.await(ctx, minimalClient, minimalServer)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return at[0].String(), errors.Join(err, handwritten.Await(ctx, at[0]), handwritten.Await(ctx, at[1]))
}

// passing is an Envoy that passes what comes at one address to another one.
func (m *mesh) passing(from, to netip.AddrPort) handwritten.Config {
	http2 := m.o.Protocol == traffic.HTTP2 || m.o.Protocol == traffic.GRPC
	return handwritten.Config{
		Listeners: []handwritten.Listener{{
			Name: "in", At: from, Bytes: m.o.Protocol == traffic.TCP,
			Routes: []handwritten.Route{{Prefix: "/", Cluster: "next"}},
		}},
		Clusters: []handwritten.Cluster{{Name: "next", To: to, HTTP2: http2}},
	}
}

// plainEnvoy is the Deployment of an Envoy with a configuration in a file.
func (o Options) plainEnvoy(name, file string) string {
	command := quoted(o.Envoy, "--config-path", file, "--concurrency", strconv.Itoa(o.Workers), "--disable-hot-restart",
		"--log-level", "warning")
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, sidecar.istio.io/inject: "false"}}
    spec: {containers: [{name: app, command: %[3]s}]}
---
`, name, namespace, command)
}
