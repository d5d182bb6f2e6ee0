package bootstrap

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// Envoy keeps a statistic when one of these patterns matches its name. Without them a sidecar keeps
// hundreds for each cluster, of which nobody reads most. The agent reads cluster_manager,
// listener_manager and server for readiness.
var (
	prefixes = []string{"cluster_manager", "listener_manager", "server", "cluster.xds-grpc", "wasm"}
	suffixes = []string{"rbac.allowed", "rbac.denied", "shadow_allowed", "shadow_denied"}
	regexps  = []string{`vhost\..*\.route\..*`}
	always   = []string{"reporter=", "component", "istio"} // of filters for telemetry
)

// connectionsSuffix is what a drain counts until nobody is connected.
const connectionsSuffix = "downstream_cx_active"

func statistics(e settings.Envoy) object {
	var all []object
	for _, t := range proxystats.Labels() {
		all = append(all, object{"tag_name": t.Name, "regex": t.Regex})
	}
	for _, name := range e.Stats.ExtraTags {
		all = append(all, object{"tag_name": name, "regex": "(" + name + `=\.=(.*?);\.;)`})
	}
	return object{
		"use_all_default_tags": false,
		"stats_tags":           all,
		"stats_matcher":        object{"inclusion_list": object{"patterns": patterns(e)}},
	}
}

func patterns(e settings.Envoy) []object {
	kept := slices.Concat(e.Stats.Suffixes, suffixes)
	if e.ExitOnZeroConnections {
		kept = append(kept, connectionsSuffix)
	}
	var all []object
	for _, p := range slices.Concat(e.Stats.Prefixes, prefixes, always) {
		all = append(all, object{"prefix": p})
	}
	for _, p := range kept {
		all = append(all, object{"suffix": p})
	}
	for _, p := range slices.Concat(e.Stats.Regexps, regexps) {
		all = append(all, object{"safe_regex": object{"regex": p}})
	}
	return all
}
