package dataplane

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// The Deployments of the Envoys with a hand-written configuration. They are pods without a sidecar,
// so that the mesh starts and ends them.
const (
	minimalClient = "minimal-client"
	minimalServer = "minimal-server"
)

// handwritten returns the address of a path of two Envoys that do what sidecars must do and nothing
// else: pass requests on, in mutual TLS if the mesh has it. It adds them to the mesh.
func (m *mesh) handwritten(ctx context.Context) (string, error) {
	ports, err := freePorts(2)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(m.o.StateDir, "handwritten")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	var own, peer map[string]any
	if m.o.MutualTLS {
		if err := writeCertificate(dir); err != nil {
			return "", err
		}
		own, peer = transports(dir)
	}
	app := netip.AddrPortFrom(m.pod("server").App, uint16(m.o.Protocol.Port()))
	client, server := netip.AddrPortFrom(loopback(), ports[0]), netip.AddrPortFrom(loopback(), ports[1])
	manifests := ""
	for _, e := range []plainEnvoy{
		{name: minimalClient, listen: client, to: server, upstream: peer},
		{name: minimalServer, listen: server, to: app, downstream: own},
	} {
		e.protocol = m.o.Protocol
		file := filepath.Join(dir, e.name+".json")
		if err := e.write(file); err != nil {
			return "", err
		}
		manifests += e.manifest(m.o, file)
	}
	if err := m.write("handwritten.yaml", manifests); err != nil {
		return "", err
	}
	err = m.await(ctx, minimalClient, minimalServer)
	return client.String(), errors.Join(err, dialable(ctx, client), dialable(ctx, server))
}

func loopback() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// freePorts returns ports of 127.0.0.1 that are free now.
func freePorts(n int) (ports []uint16, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, netip.MustParseAddrPort(l.Addr().String()).Port())
	}
	return ports, nil
}

// dialable returns when something listens at an address.
func dialable(ctx context.Context, address netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.String())
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no hand-written Envoy listens at %v: %w", address, err)
		case <-again.C:
		}
	}
}

// plainEnvoy is one Envoy with a static configuration.
type plainEnvoy struct {
	name       string
	protocol   traffic.Protocol
	listen, to netip.AddrPort
	// downstream and upstream are transport sockets; nil for plaintext.
	downstream, upstream map[string]any
}

// write writes the configuration, in the JSON of Envoy's Bootstrap message.
func (e plainEnvoy) write(file string) error {
	cluster := map[string]any{
		"name": "next", "type": "STATIC", "connect_timeout": "10s",
		"load_assignment": map[string]any{"cluster_name": "next", "endpoints": []any{map[string]any{
			"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": address(e.to)}}},
		}}},
	}
	set(cluster, "transport_socket", e.upstream)
	if e.protocol == traffic.HTTP2 || e.protocol == traffic.GRPC {
		const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
		cluster["typed_extension_protocol_options"] = map[string]any{options: typed(options, map[string]any{
			"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
		})}
	}
	chain := map[string]any{"filters": []any{e.filter()}}
	set(chain, "transport_socket", e.downstream)
	encoded, err := json.MarshalIndent(map[string]any{"static_resources": map[string]any{
		"listeners": []any{map[string]any{
			"name": "in", "address": address(e.listen), "filter_chains": []any{chain},
		}},
		"clusters": []any{cluster},
	}}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, encoded, 0o600)
}

// filter is what passes requests, or bytes, on.
func (e plainEnvoy) filter() map[string]any {
	if e.protocol == traffic.TCP {
		return map[string]any{
			"name": "envoy.filters.network.tcp_proxy",
			"typed_config": typed("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", map[string]any{
				"stat_prefix": "in", "cluster": "next",
			}),
		}
	}
	return map[string]any{
		"name": "envoy.filters.network.http_connection_manager",
		"typed_config": typed("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			map[string]any{
				"stat_prefix": "in",
				"route_config": map[string]any{"virtual_hosts": []any{map[string]any{
					"name": "all", "domains": []string{"*"}, "routes": []any{map[string]any{
						"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": "next"},
					}},
				}}},
				"http_filters": []any{map[string]any{
					"name":         "envoy.filters.http.router",
					"typed_config": typed("envoy.extensions.filters.http.router.v3.Router", map[string]any{}),
				}},
			}),
	}
}

func (e plainEnvoy) manifest(o Options, file string) string {
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
`, e.name, namespace, command)
}

func set(message map[string]any, field string, value map[string]any) {
	if value != nil {
		message[field] = value
	}
}

func address(a netip.AddrPort) map[string]any {
	return map[string]any{"socket_address": map[string]any{"address": a.Addr().String(), "port_value": a.Port()}}
}

func typed(message string, fields map[string]any) map[string]any {
	fields["@type"] = "type.googleapis.com/" + message
	return fields
}

const keyFile, certificateFile = "key.pem", "certificate.pem"

// transports returns the transport sockets of a server and of a client that both show the
// certificate of writeCertificate and demand one that it has signed.
func transports(dir string) (server, client map[string]any) {
	const messages = "envoy.extensions.transport_sockets.tls.v3."
	common := func() map[string]any {
		return map[string]any{
			"tls_params": map[string]any{
				"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3",
			},
			"tls_certificates": []any{map[string]any{
				"certificate_chain": map[string]any{"filename": filepath.Join(dir, certificateFile)},
				"private_key":       map[string]any{"filename": filepath.Join(dir, keyFile)},
			}},
			"validation_context": map[string]any{
				"trusted_ca": map[string]any{"filename": filepath.Join(dir, certificateFile)},
			},
		}
	}
	socket := func(message string, fields map[string]any) map[string]any {
		fields["common_tls_context"] = common()
		return map[string]any{"name": "envoy.transport_sockets.tls", "typed_config": typed(messages+message, fields)}
	}
	return socket("DownstreamTlsContext", map[string]any{"require_client_certificate": true}),
		socket("UpstreamTlsContext", map[string]any{"sni": "server"})
}

// writeCertificate writes a new key of the kind that the mesh's workloads have, and a certificate
// that it has signed itself.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "handwritten"}, DNSNames: []string{"server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	write := func(file, kind string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
	}
	return errors.Join(write(keyFile, "PRIVATE KEY", private), write(certificateFile, "CERTIFICATE", certificate))
}
