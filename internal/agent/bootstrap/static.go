package bootstrap

import (
	"fmt"
	"net"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// The static clusters have Istio's names: the control plane's configuration refers to sds-grpc.
const (
	xdsCluster   = "xds-grpc"
	sdsCluster   = "sds-grpc"
	agentCluster = "agent"
	adminCluster = "prometheus_stats"
	statsCluster = "envoy_metrics_service"
)

func clusters(s settings.Settings) []object {
	loopback := s.Node.Loopback().String()
	all := []object{
		static(adminCluster, "0.25s", pipe(s.Envoy.AdminSocket())),
		static(agentCluster, "0.25s", socketAddress(loopback, s.Status.Port)),
		overHTTP2(static(sdsCluster, "1s", pipe(s.Envoy.SDSSocket))),
		overHTTP2(static(xdsCluster, "1s", pipe(s.Envoy.XDSSocket()))),
	}
	if to := s.Envoy.Stats.Service; to != "" {
		all = append(all, metricsService(to))
	}
	return all
}

// metricsService is the receiver of Envoy's statistics, whose name is looked up.
func metricsService(at string) object {
	host, text, _ := net.SplitHostPort(at) // settings have checked it
	port, _ := strconv.ParseUint(text, 10, 16)
	cluster := overHTTP2(static(statsCluster, "1s", socketAddress(host, uint16(port))))
	cluster["type"] = "STRICT_DNS"
	return cluster
}

// metricsSink sends all statistics to the receiver every five seconds, which is Envoy's standard.
func metricsSink() object {
	return object{
		"name": "envoy.stat_sinks.metrics_service",
		"typed_config": object{
			"@type":                 "type.googleapis.com/envoy.config.metrics.v3.MetricsServiceConfig",
			"transport_api_version": "V3",
			"grpc_service":          object{"envoy_grpc": object{"cluster_name": statsCluster}},
		},
	}
}

// static is a cluster with one endpoint. Its name in statistics is as that of all clusters of
// the mesh.
func static(name, connectTimeout string, address object) object {
	return object{
		"name":            name,
		"alt_stat_name":   proxystats.StatName(name),
		"type":            "STATIC",
		"connect_timeout": connectTimeout,
		"load_assignment": object{
			"cluster_name": name,
			"endpoints":    []object{{"lb_endpoints": []object{{"endpoint": object{"address": address}}}}},
		},
	}
}

func pipe(path string) object { return object{"pipe": object{"path": path}} }

func overHTTP2(cluster object) object {
	cluster["typed_extension_protocol_options"] = object{
		"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": object{
			"@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": object{"http2_protocol_options": object{
				"initial_stream_window_size":     16 << 20,
				"initial_connection_window_size": 16 << 20,
			}},
		},
	}
	return cluster
}

// listeners serve Envoy's statistics to everybody, and its readiness: the kubelet asks Envoy, which
// asks the agent, so that both are alive when the answer is yes. An agent without a status port
// answers neither.
func listeners(s settings.Settings) []object {
	metrics := listener(s, s.Envoy.MetricsPort, "stats", statistic(s))
	if s.Status.MetricsOnly {
		metrics["address"] = socketAddress(s.Node.Loopback().String(), s.Envoy.MetricsPort)
	}
	if s.Envoy.StatsCompression {
		compress(metrics)
	}
	all := []object{metrics}
	if s.Status.Port != 0 {
		all = append(all, listener(s, s.Envoy.StatusPort, "agent", route("/healthz/ready", agentCluster)))
	}
	return all
}

// statistic serves Envoy's statistics by way of the agent, which makes Istio's metrics of them.
func statistic(s settings.Settings) object {
	if s.Status.Port == 0 {
		return route("/stats/prometheus", adminCluster)
	}
	to := route("/stats/prometheus", agentCluster)
	to["route"].(object)["prefix_rewrite"] = settings.EnvoyStatsPath
	return to
}

func route(prefix, cluster string) object {
	return object{"match": object{"prefix": prefix}, "route": object{"cluster": cluster}}
}

// listener is one on all addresses that limits of connections leave out, so that a proxy at its
// limit is still observed.
func listener(s settings.Settings, port uint16, statPrefix string, route object) object {
	return object{
		"name":                     fmt.Sprintf("%s_%d", wildcard(s.Node), port),
		"address":                  anyAddress(s.Node, port),
		"ignore_global_conn_limit": true,
		"bypass_overload_manager":  true,
		"filter_chains": []object{{"filters": []object{{
			"name": "envoy.filters.network.http_connection_manager",
			"typed_config": object{
				"@type": "type.googleapis.com/envoy.extensions.filters.network." +
					"http_connection_manager.v3.HttpConnectionManager",
				"codec_type":  "AUTO",
				"stat_prefix": statPrefix,
				"route_config": object{"virtual_hosts": []object{{
					"name": "backend", "domains": []string{"*"}, "routes": []object{route},
				}}},
				"http_filters": []object{router()},
			},
		}}}},
	}
}

func router() object {
	return object{
		"name": "envoy.filters.http.router",
		"typed_config": object{
			"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
		},
	}
}

// compress makes a listener offer gzip.
func compress(listener object) {
	chain := listener["filter_chains"].([]object)[0]
	manager := chain["filters"].([]object)[0]["typed_config"].(object)
	manager["http_filters"] = []object{{
		"name": "envoy.filters.http.compressor.gzip",
		"typed_config": object{
			"@type": "type.googleapis.com/envoy.extensions.filters.http.compressor.v3.Compressor",
			"compressor_library": object{
				"name": "stats_gzip",
				"typed_config": object{
					"@type": "type.googleapis.com/envoy.extensions.compression.gzip.compressor.v3.Gzip",
				},
			},
		},
	}, router()}
}

// wildcard is any address, in the family of the Pod's first one, by which the kubelet asks.
func wildcard(n settings.Node) string {
	if n.Addresses[0].Is6() {
		return "::"
	}
	return "0.0.0.0"
}

func anyAddress(n settings.Node, port uint16) object {
	address := socketAddress(wildcard(n), port)
	if n.Addresses[0].Is6() && !n.IPv6() {
		address["socket_address"].(object)["ipv4_compat"] = true
	}
	return address
}
