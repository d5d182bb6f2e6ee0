package bootstrap

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
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

// tag names a part of statistics' names, which becomes a label.
type tag struct{ name, regex string }

// tags are Istio's labels. A cluster's name ends at a semicolon (see static), since it has dots.
var tags = []tag{
	{"cluster_name", `^cluster(\.(.+);)`},
	{"http_conn_manager_prefix", `^http\.(((?:[_.[:digit:]\w]*|[_\[\]aAbBcCdDeEfF[:digit:]\w\:]*));\.)`},
	{"thread_name", `^server(\.(.+))\.watchdog`},
	{"tcp_prefix", `^tcp\.((.*?)\.)\w+?$`},
	{"response_code", `_rq(_(\d{3}))$`},
	{"response_code_class", `_rq(_(\dxx))$`},
	{
		"http_conn_manager_listener_prefix",
		`^listener(?=\.).*?\.http\.(((?:[_.[:digit:]]*|[_\[\]aAbBcCdDeEfF[:digit:]]*))\.)`,
	},
	{"listener_address", `^listener\.(((?:[_.[:digit:]]*|[_\[\]aAbBcCdDeEfF[:digit:]]*))\.)`},
	{"cache", `(cache\.(.+?)\.)`},
	{"component", `(component\.(.+?)\.)`},
	{"tag", `(tag\.(.+?);\.)`},
	{"wasm_filter", `(wasm_filter\.(.+?)\.)`},
	{"authz_enforce_result", `rbac(\.(allowed|denied))`},
	{"authz_dry_run_action", `(\.istio_dry_run_(allow|deny)_)`},
	{"authz_dry_run_result", `(\.shadow_(allowed|denied))`},
}

func statistics(e settings.Envoy) object {
	var all []object
	for _, t := range tags {
		all = append(all, object{"tag_name": t.name, "regex": t.regex})
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
