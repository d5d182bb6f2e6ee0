package convert

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lateen-mesh/lateen/internal/source"
)

// notYet is the message for a field that is set and not translated.
const notYet = "is not supported by Lateen yet and has no effect"

// Messages for fields that have no effect for another reason.
const (
	deadInIstio  = "has no effect, as in istiod"
	oneCluster   = "has no effect: one cluster is served"
	noAmbient    = "has no effect: ambient is not served"
	noSuchTracer = "has no effect: this tracer is not supported"
	noHardware   = "has no effect: proxies use no hardware for keys"
	ownBootstrap = "has no effect: the agent writes the bootstrap itself"
	oneSource    = "has no effect: objects come from one API server, or from files"
)

// absence says why fields of a message are not in force. What stands below them is not either.
type absence struct {
	message protoreflect.FullName
	fields  string
	why     string
}

// absences has a line for each field of the kinds that are read, unless usedFields or isOfStart has
// it.
func absences() []absence {
	const networking, mesh = "istio.networking.v1alpha3.", "istio.mesh.v1alpha1."
	const extensions = "istio.extensions.v1alpha1."
	const provider = mesh + "MeshConfig.ExtensionProvider"
	return []absence{
		{networking + "OutlierDetection", "consecutive_errors", deadInIstio},
		{networking + "Port", "target_port", deadInIstio},
		{networking + "SidecarPort", "target_port", deadInIstio},
		{networking + "Server", "default_endpoint", deadInIstio},
		{networking + "WorkloadEntry", "network", oneCluster},
		{networking + "EnvoyFilter.ListenerMatch", "port_name", deadInIstio},
		{networking + "EnvoyFilter.EnvoyConfigObjectMatch", "waypoint", noAmbient},
		{extensions + "WasmPlugin", "verification_key", deadInIstio},
		{extensions + "WasmConfig", "verification_key", deadInIstio},

		{mesh + "MeshConfig", "service_entry_visibility", notYet},
		{mesh + "MeshConfig", "hbone_idle_timeout service_scope_configs", noAmbient},
		{mesh + "MeshConfig", "service_settings", oneCluster},
		{mesh + "MeshConfig", "config_sources", oneSource},
		{mesh + "MeshConfig", "certificates ca verify_certificate_at_client", deadInIstio},
		// The source of objects reads one, and the injection the other, where there is one.
		{mesh + "MeshConfig", "discovery_selectors enable_prometheus_merge", notYet},
		{provider, "sds", notYet},
		{provider, "lightstep stackdriver opencensus", noSuchTracer},
		{provider + ".SkyWalkingTracingProvider", "access_token", notYet},
		{provider + ".OpenTelemetryTracingProvider", "service_attribute_enrichment", notYet},
		{provider + ".OpenTelemetryTracingProvider", "dynatrace_sampler", noSuchTracer},
		{provider + ".ResourceDetectors", "dynatrace", noSuchTracer},

		{mesh + "ProxyConfig", "discovery_refresh_delay availability_zone sds mesh_id", deadInIstio},
		{mesh + "ProxyConfig.ConnectionSettings",
			"cluster_per_connection_buffer_limit_bytes listener_connection_limit", deadInIstio},
		{mesh + "ProxyConfig", "zipkin_address envoy_metrics_service_address statsd_udp_address", notYet},
		{mesh + "ProxyConfig", "custom_config_file proxy_bootstrap_template_path", ownBootstrap},
		{mesh + "ProxyConfig", "ca_certificates_pem", oneSource},
		{mesh + "ProxyConfig", "private_key_provider", noHardware},
		{mesh + "Tracing", "tls_settings", notYet},
		{mesh + "Tracing", "lightstep stackdriver open_census_agent", noSuchTracer},
		{mesh + "RemoteService", "tls_settings tcp_keepalive", notYet},
	}
}

// IsGap reports whether a warning tells of something that istiod does and Lateen does not. The
// messages of such warnings say "yet", or why there is nothing to take effect on.
func IsGap(p source.Problem) bool {
	if strings.Contains(p.Message, " yet") {
		return true
	}
	return slices.ContainsFunc(absences(), func(a absence) bool { return a.why == p.Message && a.why != deadInIstio })
}

// IsSoInIstiod reports whether a problem tells of a field that istiod gives no effect either, so
// that nothing is lost.
func IsSoInIstiod(p source.Problem) bool { return p.Message == deadInIstio }

// whyAbsent returns the message for a field that is set and not in force.
func whyAbsent(field protoreflect.FieldDescriptor) string {
	for _, a := range absences() {
		if a.message == field.ContainingMessage().FullName() && hasWord(a.fields, string(field.Name())) {
			return a.why
		}
	}
	return notYet
}
