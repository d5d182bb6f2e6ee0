package handwritten

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"
)

// Config is the static configuration of an Envoy.
type Config struct {
	Listeners []Listener
	Clusters  []Cluster
}

// Listener takes connections and passes requests, or with Bytes what comes, to clusters.
type Listener struct {
	Name string
	At   netip.AddrPort
	// Routes are tried in order. With Bytes there is one, whose prefix does not count.
	Routes []Route
	Bytes  bool
	// Transport is a transport socket; nil for plaintext.
	Transport map[string]any
}

// Route leads requests whose path begins with a prefix to a cluster.
type Route struct{ Prefix, Cluster string }

// Cluster is a server.
type Cluster struct {
	Name  string
	To    netip.AddrPort
	HTTP2 bool
	// Transport is a transport socket; nil for plaintext.
	Transport map[string]any
}

// Write writes the configuration into a file, in the JSON of Envoy's Bootstrap message.
func (c Config) Write(file string) error {
	listeners, clusters := make([]any, 0, len(c.Listeners)), make([]any, 0, len(c.Clusters))
	for _, l := range c.Listeners {
		listeners = append(listeners, l.message())
	}
	for _, s := range c.Clusters {
		clusters = append(clusters, s.message())
	}
	encoded, err := json.MarshalIndent(map[string]any{
		"static_resources": map[string]any{"listeners": listeners, "clusters": clusters},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, encoded, 0o600)
}

func (c Cluster) message() map[string]any {
	m := map[string]any{
		"name": c.Name, "type": "STATIC", "connect_timeout": "10s",
		"load_assignment": map[string]any{"cluster_name": c.Name, "endpoints": []any{map[string]any{
			"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": address(c.To)}}},
		}}},
	}
	set(m, "transport_socket", c.Transport)
	if c.HTTP2 {
		const options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
		m["typed_extension_protocol_options"] = map[string]any{options: typed(options, map[string]any{
			"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
		})}
	}
	return m
}

func (l Listener) message() map[string]any {
	chain := map[string]any{"filters": []any{l.filter()}}
	set(chain, "transport_socket", l.Transport)
	return map[string]any{"name": l.Name, "address": address(l.At), "filter_chains": []any{chain}}
}

// filter is what passes requests, or bytes, on.
func (l Listener) filter() map[string]any {
	if l.Bytes {
		return map[string]any{
			"name": "envoy.filters.network.tcp_proxy",
			"typed_config": typed("envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", map[string]any{
				"stat_prefix": l.Name, "cluster": l.Routes[0].Cluster,
			}),
		}
	}
	routes := make([]any, 0, len(l.Routes))
	for _, r := range l.Routes {
		routes = append(routes, map[string]any{
			"match": map[string]any{"prefix": r.Prefix}, "route": map[string]any{"cluster": r.Cluster},
		})
	}
	return map[string]any{
		"name": "envoy.filters.network.http_connection_manager",
		"typed_config": typed("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
			map[string]any{
				"stat_prefix": l.Name,
				"route_config": map[string]any{"virtual_hosts": []any{map[string]any{
					"name": "all", "domains": []string{"*"}, "routes": routes,
				}}},
				"http_filters": []any{map[string]any{
					"name":         "envoy.filters.http.router",
					"typed_config": typed("envoy.extensions.filters.http.router.v3.Router", map[string]any{}),
				}},
			}),
	}
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

// FreeAddresses returns addresses of 127.0.0.1 whose ports are free now.
func FreeAddresses(n int) (all []netip.AddrPort, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // it has done its work
		all = append(all, netip.MustParseAddrPort(l.Addr().String()))
	}
	return all, nil
}

// Dial reports whether something listens at an address.
func Dial(ctx context.Context, address netip.AddrPort) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.String())
	if err != nil {
		return err
	}
	return c.Close()
}

// Await returns when something listens at an address, or the context has ended.
func Await(ctx context.Context, address netip.AddrPort) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := Dial(ctx, address)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no hand-written Envoy listens at %v: %w", address, err)
		case <-again.C:
		}
	}
}
