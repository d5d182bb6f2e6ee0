package envoyfilter

import (
	"regexp"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

const connectionManager = "envoy.filters.network.http_connection_manager"

// filterName reads the name of a filter that is matched. A name from before Envoy 1.14 stands for
// its successor, because no proxy has a filter of the old name any more.
func (r *reader) filterName(field, name string) string {
	now, old := renamed()[name]
	if !old {
		return name
	}
	r.warn(field, name, "is no filter's name any more; its later name is in force", now)
	return now
}

// renamed has the names of filters since Envoy 1.14, by those before.
func renamed() map[string]string {
	now := map[string]string{
		"envoy.http_connection_manager": connectionManager,
		"envoy.client_ssl_auth":         "envoy.filters.network.client_ssl_auth",
		"envoy.ext_authz":               "envoy.filters.network.ext_authz",
		"envoy.mongo_proxy":             "envoy.filters.network.mongo_proxy",
		"envoy.ratelimit":               "envoy.filters.network.ratelimit",
		"envoy.redis_proxy":             "envoy.filters.network.redis_proxy",
		"envoy.tcp_proxy":               "envoy.filters.network.tcp_proxy",
		"envoy.rate_limit":              "envoy.filters.http.ratelimit",
		"envoy.grpc_json_transcoder":    "envoy.filters.http.grpc_json_transcoder",
		"envoy.http_dynamo_filter":      "envoy.filters.http.dynamo",
	}
	for _, name := range strings.Fields("buffer cors csrf fault gzip grpc_http1_bridge grpc_web health_check " +
		"ip_tagging lua router squash") {
		now["envoy."+name] = "envoy.filters.http." + name
	}
	for _, name := range strings.Fields("original_dst original_src proxy_protocol tls_inspector http_inspector") {
		now["envoy.listener."+name] = "envoy.filters.listener." + name
	}
	return now
}

// isReserved reports whether a patch cannot add something of a name, because the control plane may
// have made something of this name, and no proxy takes two.
func isReserved(target model.PatchTarget, name string) bool {
	switch target {
	case model.PatchCluster:
		return regexp.MustCompile(`^(in|out)bound\||^(BlackHole|Passthrough|InboundPassthrough)Cluster$|^AllowAny`).
			MatchString(name)
	case model.PatchListener:
		return name == "" || regexp.MustCompile(`^virtual(In|Out)bound$|^inbound_|^[0-9a-fA-F.:]+_\d+$`).
			MatchString(name)
	case model.PatchVirtualHost:
		return regexp.MustCompile(`:\d+$|^(allow_any|allow_any_dynamic_dns|block_all)$`).MatchString(name)
	case model.PatchExtensionConfig:
		return name == "" || strings.HasPrefix(name, "lateen.") || strings.HasPrefix(name, "extensions.istio.io/")
	}
	return false
}
