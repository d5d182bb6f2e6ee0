package convert

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source/istiojson"
)

// The mesh configuration is the key "mesh" of the ConfigMap "istio" in the root namespace, unless
// Options say otherwise.
const (
	meshConfigMap = "istio"
	meshConfigKey = "mesh"
)

// idleTimeoutMetadata is where Istio has the idle timeout of inbound connections.
const idleTimeoutMetadata = "ISTIO_META_IDLE_TIMEOUT"

// configMap reads the mesh configuration field by field: a wrong field affects no other. If the
// configuration cannot be read at all, unknown destinations are closed, because it may have said
// so. Of other ConfigMaps the one with fetched keys counts, and authorities that a ConfigMap holds.
func (r *reader) configMap(in *corev1.ConfigMap) []Object {
	switch r.object {
	case r.converter.MeshKey():
	case r.converter.KeySetsKey():
		return r.keySets(in)
	default:
		return r.certificateBundle(in)
	}
	out := r.converter.defaults
	p := path("data." + meshConfigKey)
	for _, key := range sortedKeys(in.Data) {
		if key != meshConfigKey && (key != meshNetworksKey || !isEmptyNetworks(in.Data[key])) {
			r.warn(path("data").dot(key), nil, notYet, "")
		}
	}
	text, set := in.Data[meshConfigKey]
	if !set {
		r.fail(p, nil, "is missing", "the mesh configuration in YAML")
	}
	spec, ok := r.parseMesh(p, text)
	if !ok || !set {
		out.Outbound.RegistryOnly = true
		out.Retries, out.Locality = r.pools.retries.Canonical(out.Retries), r.pools.localities.Canonical(out.Locality)
		return []Object{&out}
	}
	r.meshOf(p, spec, &out)
	out.Metrics = out.Metrics && !hasEmptyMetrics(text)
	if r.converter.selected {
		spec.DiscoverySelectors = nil // the source applies them
	}
	r.withoutDefaults(spec)
	r.reportUnused(p, spec.ProtoReflect())
	return []Object{&out}
}

func (r *reader) parseMesh(p path, text string) (*mesh.MeshConfig, bool) {
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	var fields map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		r.fail(
			p, nil, "cannot be read: "+err.Error()+"; unknown destinations are refused",
			"the mesh configuration in YAML",
		)
		return nil, false
	}
	spec := &mesh.MeshConfig{EnableTracing: true} // Istio's default
	for _, name := range sortedKeys(fields) {
		one, err := json.Marshal(map[string]json.RawMessage{name: fields[name]})
		part := &mesh.MeshConfig{}
		if err == nil {
			err = istiojson.Unmarshal(one, part, protojson.UnmarshalOptions{})
		}
		if err != nil {
			r.fail(
				p.dot(name), scalarText(fields[name]), "cannot be read: "+userMessage(err),
				"a field of istio.mesh.v1alpha1.MeshConfig",
			)
			if name == "outboundTrafficPolicy" || name == "outbound_traffic_policy" {
				spec.OutboundTrafficPolicy = &mesh.MeshConfig_OutboundTrafficPolicy{}
			}
			continue
		}
		if name == "enableTracing" || name == "enable_tracing" {
			spec.EnableTracing = false // to merge false has no effect
		}
		proto.Merge(spec, part)
	}
	return spec, true
}

// protojsonPrefix is what protojson puts before its messages: a position in the one field that it
// was given, with white space that differs from build to build.
var protojsonPrefix = regexp.MustCompile(`^proto:[\s\x{a0}]*(?:syntax error )?(?:\(line \d+:\d+\): )?`)

// scalarText returns a scalar without its quotes. Larger values may hold secrets and are not shown.
func scalarText(value json.RawMessage) any {
	if len(value) == 0 || value[0] == '{' || value[0] == '[' {
		return nil
	}
	return strings.Trim(string(value), `"`)
}

// userMessage returns a message of protojson for people.
func userMessage(err error) string {
	return strings.ReplaceAll(protojsonPrefix.ReplaceAllString(err.Error(), ""), "\u00a0", " ")
}

func (r *reader) meshOf(p path, in *mesh.MeshConfig, out *model.MeshConfig) {
	if name := in.GetRootNamespace(); name != "" {
		if isName(name) {
			out.RootNamespace = name
		} else {
			r.fail(p.dot("rootNamespace"), name, "is no namespace", wantLabel)
		}
	}
	if in.GetOutboundTrafficPolicy() != nil {
		out.Outbound = r.meshOutbound(p.dot("outboundTrafficPolicy"), in.GetOutboundTrafficPolicy())
	}
	if d := r.duration(p.dot("connectTimeout"), in.GetConnectTimeout()); d != 0 {
		out.ConnectTimeout = d
	}
	r.dnsRefresh(p.dot("dnsRefreshRate"), in.GetDnsRefreshRate(), out)
	if in.GetDefaultHttpRetryPolicy() != nil {
		at, start := p.dot("defaultHttpRetryPolicy"), r.mark()
		retries := r.retryPolicy(at, in.GetDefaultHttpRetryPolicy())
		if r.failure(start, at) == "" {
			out.Retries = retries
		}
	}
	out.Retries = r.pools.retries.Canonical(out.Retries)
	if in.GetProxyHttpPort() != 0 {
		out.ProxyHTTPPort, _ = r.port(p.dot("proxyHttpPort"), int64(in.GetProxyHttpPort()))
	}
	if auto := in.GetEnableAutoMtls(); auto != nil {
		out.AutoTLS = auto.GetValue()
	}
	r.meshInbound(p, in, out)
	out.NoListenerLog = in.GetDisableEnvoyListenerLog()
	out.Clusters = r.meshClusters(p, in)
	out.InboundStatName = r.statPattern(
		p.dot("inboundClusterStatName"), in.GetInboundClusterStatName(), "%SUBSET_NAME%",
	)
	out.OutboundStatName = r.statPattern(
		p.dot("outboundClusterStatName"), in.GetOutboundClusterStatName(), "%TARGET_PORT%",
	)
	out.DetectionTimeout = r.durationOrZero(p.dot("protocolDetectionTimeout"), in.GetProtocolDetectionTimeout())
	out.UpgradeHTTP2 = in.GetH2UpgradePolicy() == mesh.MeshConfig_UPGRADE
	out.MeshTLS = r.tlsParams(p.dot("meshMTLS"), in.GetMeshMTLS(), out.MeshTLS)
	out.TLSDefaults = r.tlsParams(p.dot("tlsDefaults"), in.GetTlsDefaults(), out.TLSDefaults)
	r.trustDomains(p, in, out)
	r.caCertificates(p.dot("caCertificates"), in.GetCaCertificates(), out)
	out.PathNormalization = r.pathNormalization(p.dot("pathNormalization.normalization"), in.GetPathNormalization())
	out.ExtAuthz = r.extAuthz(p.dot("extensionProviders"), in.GetExtensionProviders())
	out.ServiceExport = r.exports(p.dot("defaultServiceExportTo"), in.GetDefaultServiceExportTo(), out.ServiceExport)
	out.VirtualServiceExport = r.exports(
		p.dot("defaultVirtualServiceExportTo"), in.GetDefaultVirtualServiceExportTo(), out.VirtualServiceExport,
	)
	out.DestinationRuleExport = r.exports(
		p.dot("defaultDestinationRuleExportTo"), in.GetDefaultDestinationRuleExportTo(), out.DestinationRuleExport,
	)
	out.Metrics = r.metrics(p, in)
	r.accessLogs(p, in, out)
	r.tracing(p, in, out)
	out.PrometheusProviders = prometheusProviders(in)
	if in.GetLocalityLbSetting() != nil {
		out.Locality = r.localityLB(p.dot("localityLbSetting"), in.GetLocalityLbSetting())
	}
	if zones := in.GetZoneAwareLbSetting(); zones != nil { // it counts, also beside the other one
		out.Locality = r.zoneAwareLB(p.dot("zoneAwareLbSetting"), zones)
	}
	out.Locality = r.pools.localities.Canonical(out.Locality)
	r.ingressConfig(p, in, &out.Ingress)
	r.proxyConfig(p.dot("defaultConfig"), in.GetDefaultConfig(), out)
}

// dnsRefresh reads how often names are looked up. Envoy refuses a cluster with a millisecond or
// less, so such a value leaves the default.
func (r *reader) dnsRefresh(p path, in *durationpb.Duration, out *model.MeshConfig) {
	d := r.duration(p, in)
	if d == time.Millisecond {
		r.fail(p, d, "is too short for Envoy", "a duration of more than 1ms")
		return
	}
	if d != 0 {
		out.DNSRefresh = d
	}
}

// trustDomains reads the trust domains of the mesh. A wrong one is left out.
func (r *reader) trustDomains(p path, in *mesh.MeshConfig, out *model.MeshConfig) {
	ok := func(p path, name string) bool {
		if !isTrustDomain(name) {
			r.fail(p, name, "is no trust domain", wantTrustDomain)
			return false
		}
		return true
	}
	if name := in.GetTrustDomain(); name != "" && ok(p.dot("trustDomain"), name) {
		out.TrustDomain = name
	}
	for i, name := range in.GetTrustDomainAliases() {
		if ok(p.dot("trustDomainAliases").at(i), name) {
			out.TrustDomainAliases = append(out.TrustDomainAliases, name)
		}
	}
}

func (r *reader) ingressConfig(p path, in *mesh.MeshConfig, out *model.IngressConfig) {
	switch in.GetIngressControllerMode() {
	case mesh.MeshConfig_UNSPECIFIED, mesh.MeshConfig_STRICT:
	case mesh.MeshConfig_DEFAULT:
		out.Mode = model.IngressAll
	case mesh.MeshConfig_OFF:
		out.Mode = model.IngressOff
	default:
		r.fail(
			p.dot("ingressControllerMode"), in.GetIngressControllerMode(), "is no mode; STRICT is in force",
			"OFF, DEFAULT or STRICT",
		)
	}
	out.Class = cmp.Or(in.GetIngressClass(), out.Class)
	service := in.GetIngressService()
	switch {
	case service == "":
	case !isName(service):
		r.fail(p.dot("ingressService"), service, "is no name of a Service", wantLabel)
	// as in Istio, its name stands for the label of the same value, but for that of the default one
	case service != out.Service:
		out.Service, out.Selector = service, service
	}
	out.Selector = cmp.Or(in.GetIngressSelector(), out.Selector)
}

func (r *reader) meshOutbound(p path, in *mesh.MeshConfig_OutboundTrafficPolicy) model.OutboundPolicy {
	if in.GetTls() != nil {
		r.fail(p.dot("tls"), in.GetTls().GetMode(), "is not supported yet; unknown destinations are refused", "no tls")
		return model.OutboundPolicy{RegistryOnly: true}
	}
	switch in.GetMode() {
	case mesh.MeshConfig_OutboundTrafficPolicy_REGISTRY_ONLY:
		return model.OutboundPolicy{RegistryOnly: true}
	case mesh.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY:
		return model.OutboundPolicy{}
	case mesh.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS:
		r.warn(p.dot("mode"), in.GetMode(), "resolves names at ports where the mesh has a host that takes requests, "+
			"and at the HTTP proxy port; at others it is taken for ALLOW_ANY", "")
		return model.OutboundPolicy{DynamicDNS: true}
	}
	r.fail(
		p.dot("mode"), in.GetMode(), "is no mode; unknown destinations are refused",
		"REGISTRY_ONLY, ALLOW_ANY or ALLOW_ANY_DYNAMIC_DNS",
	)
	return model.OutboundPolicy{RegistryOnly: true}
}

// gatewayTopology reads what stands in front of gateways. What is no way to treat the header of
// clients' certificates leaves the standard, which believes no client.
func (r *reader) gatewayTopology(p path, in *mesh.Topology) model.GatewayTopology {
	details := in.GetForwardClientCertDetails()
	header, known := model.ClientCertHeaderOf(details.String())
	if !known {
		r.fail(
			p.dot("forwardClientCertDetails"), details, "is no way to forward certificates; SANITIZE_SET is in force",
			model.ClientCertHeaders,
		)
	}
	return model.GatewayTopology{
		TrustedProxies: in.GetNumTrustedProxies(), ClientCert: header, ProxyProtocol: in.GetProxyProtocol() != nil,
	}
}

func (r *reader) proxyConfig(p path, in *mesh.ProxyConfig, out *model.MeshConfig) {
	out.GatewayTopology = r.gatewayTopology(p.dot("gatewayTopology"), in.GetGatewayTopology())
	out.Headers = r.proxyHeaders(p.dot("proxyHeaders"), in.GetProxyHeaders())
	out.Connections = r.connectionSettings(p.dot("connectionSettings"), in.GetConnectionSettings())
	at := p.dot("proxyMetadata")
	for _, key := range sortedKeys(in.GetProxyMetadata()) {
		if key != idleTimeoutMetadata {
			if !r.converter.injects {
				r.warn(at.key(key), nil, notYet, "")
			}
			continue
		}
		text := in.GetProxyMetadata()[key]
		d, err := time.ParseDuration(text)
		if err != nil {
			r.fail(at.key(key), text, "is no duration", `a duration as "100s"`)
			continue
		}
		out.IdleTimeout = r.durationOrZero(at.key(key), durationpb.New(d))
	}
}
