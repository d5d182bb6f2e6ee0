package proxystats

// NamePart is a part of the names of Envoy's statistics that becomes a label.
type NamePart struct{ Name, Regex string }

// Labels returns Istio's labels of Envoy's own statistics. A cluster's name ends at a semicolon
// (StatName), since it has dots.
func Labels() []NamePart {
	return []NamePart{
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
}

// StatName is the name of a cluster in Envoy's statistics, in its alt_stat_name.
func StatName(cluster string) string { return cluster + ";" }
