package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

type object = map[string]any

// ownerOnly is the mode of a socket that only Envoy's user may connect to.
const ownerOnly = 0o600

// Config returns Envoy's bootstrap as JSON. Equal settings give equal bytes.
func Config(s settings.Settings) ([]byte, error) {
	config := object{
		"node":                   node(s.Node),
		"application_log_config": object{"log_format": logFormat(s.Envoy.LogJSON)},
		"layered_runtime": object{"layers": []object{
			{"name": "static", "static_layer": runtimeFlags(s.Envoy.RuntimeValues)},
			{"name": "admin", "admin_layer": object{}},
		}},
		"stats_config": statistics(s.Envoy),
		// Half of a cluster's memory are statistics that most clusters never use.
		"deferred_stat_options": object{"enable_deferred_creation_stats": true},
		"admin": object{
			// A socket of TCP would be within reach of routes.
			"address":      object{"pipe": object{"path": s.Envoy.AdminSocket(), "mode": ownerOnly}},
			"profile_path": "/var/lib/istio/data/envoy.prof",
		},
		"dynamic_resources": dynamicResources(),
		"static_resources":  object{"clusters": clusters(s), "listeners": listeners(s)},
		"overload_manager":  overload(s.Envoy.MaxConnections),
	}
	if s.Envoy.Stats.Service != "" {
		config["stats_sinks"] = []object{metricsSink()}
	}
	if path := s.Envoy.OutlierLogPath; path != "" {
		config["cluster_manager"] = object{"outlier_detection": object{"event_log_path": path}}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(config); err != nil {
		return nil, fmt.Errorf("bootstrap of %s: %w", s.Node.ID(), err)
	}
	return b.Bytes(), nil
}

func node(n settings.Node) object {
	o := object{"id": n.ID(), "cluster": n.Cluster, "metadata": n.Metadata}
	if n.Locality != (settings.Locality{}) {
		o["locality"] = object{
			"region":   n.Locality.Region,
			"zone":     n.Locality.Zone,
			"sub_zone": n.Locality.SubZone,
		}
	}
	return o
}

// logFormat is that of Envoy's own lines, with the fields of the agent's.
func logFormat(asJSON bool) object {
	if !asJSON {
		return object{"text_format": "%Y-%m-%dT%T.%fZ\t%l\tenvoy %n %g:%#\t%v\tthread=%t"}
	}
	return object{"json_format": object{
		"time": "%Y-%m-%dT%T.%fZ", "level": "%l", "scope": "envoy %n", "msg": "%j", "caller": "%g:%#", "thread": "%t",
	}}
}

// runtimeFlags are Istio's, under those of the ProxyConfig: an empty value removes a flag. Envoy by
// default refuses a whole route table for one regular expression with a program of more than 100
// instructions, which a few character classes have.
func runtimeFlags(set map[string]string) object {
	flags := object{
		"re2.max_program_size.error_level":                         32768,
		"envoy.reloadable_features.http_reject_path_with_fragment": false,
	}
	for name, value := range set {
		switch value {
		case "":
			delete(flags, name)
		case "true", "false":
			flags[name] = value == "true"
		default:
			flags[name] = value
		}
	}
	return flags
}

// dynamicResources asks for everything on one delta stream. The agent answers each subscription, so
// Envoy waits for the first answer however long it takes: to go on without would serve 503s.
func dynamicResources() object {
	ads := object{"ads": object{}, "initial_fetch_timeout": "0s", "resource_api_version": "V3"}
	return object{
		"cds_config": ads, "lds_config": ads,
		"ads_config": object{
			"api_type":                       "DELTA_GRPC",
			"transport_api_version":          "V3",
			"set_node_on_first_message_only": true,
			"grpc_services": []object{{"envoy_grpc": object{
				"cluster_name": xdsCluster,
				// The socket is on this machine, and the agent is the one that backs off.
				"retry_policy": object{"retry_back_off": object{"base_interval": "0.05s", "max_interval": "1s"}},
			}}},
		},
	}
}

// overload limits the connections of all clients together. Envoy warns of a missing limit.
func overload(connections uint32) object {
	if connections == 0 {
		connections = math.MaxInt32
	}
	return object{"resource_monitors": []object{{
		"name": "envoy.resource_monitors.global_downstream_max_connections",
		"typed_config": object{
			"@type": "type.googleapis.com/" +
				"envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
			"max_active_downstream_connections": connections,
		},
	}}}
}

func socketAddress(address string, port uint16) object {
	return object{"socket_address": object{"address": address, "port_value": port}}
}
