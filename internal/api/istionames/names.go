package istionames

import (
	"slices"
	"strings"
)

// Name is an annotation or a label of Istio.
type Name struct {
	Name  string
	Label bool
	// Why says why it changes nothing, as a predicate: "has no effect: …". It is empty for one that
	// is in force.
	Why string
}

// Why the others are not in force.
const (
	noAmbient   = "has no effect: ambient mode is not served"
	oneCluster  = "has no effect: one cluster is served"
	ownAgent    = "has no effect with the image lateen-proxy, whose agent does not read it"
	statsConfig = ownAgent + "; want statsCompression in proxy.istio.io/config"
	statsNames  = "has no effect; want proxyStatsMatcher in proxy.istio.io/config"
	neverRead   = "has no effect, as in istiod"
)

// All returns the annotations, then the labels, each by name.
func All() []Name {
	all := slices.Concat(annotations(), labels())
	slices.SortFunc(all, func(a, b Name) int {
		if a.Label != b.Label {
			if a.Label {
				return 1
			}
			return -1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return all
}

// Annotations returns why each annotation that changes nothing does not, by name.
func Annotations() map[string]string { return absent(annotations()) }

// Labels returns why each label that changes nothing does not, by name.
func Labels() map[string]string { return absent(labels()) }

func absent(names []Name) map[string]string {
	why := map[string]string{}
	for _, n := range names {
		if n.Why != "" {
			why[n.Name] = n.Why
		}
	}
	return why
}

// group makes rows of names that have one reason; none for those in force.
func group(label bool, why string, names ...string) []Name {
	var all []Name
	for _, name := range names {
		all = append(all, Name{Name: name, Label: label, Why: why})
	}
	return all
}

func annotations() []Name {
	return slices.Concat(
		group(false, "",
			"alpha.istio.io/canonical-serviceaccounts",
			"alpha.istio.io/kubernetes-serviceaccounts",
			"inject.istio.io/templates",
			"istio.io/autoRegistrationGroup",
			"istio.io/connectedAt",
			"istio.io/disconnectedAt",
			"istio.io/dry-run",
			"istio.io/reroute-virtual-interfaces",
			"istio.io/rev",
			"istio.io/workloadController",
			"kubernetes.io/ingress.class",
			"networking.istio.io/exportTo",
			"networking.istio.io/service-type",
			"networking.istio.io/traffic-distribution",
			"prometheus.istio.io/merge-metrics",
			"proxy.istio.io/config",
			"proxy.istio.io/overrides",
			"readiness.status.sidecar.istio.io/failureThreshold",
			"readiness.status.sidecar.istio.io/initialDelaySeconds",
			"readiness.status.sidecar.istio.io/periodSeconds",
			"sidecar.istio.io/agentLogLevel",
			"sidecar.istio.io/bootstrapOverride",
			"sidecar.istio.io/componentLogLevel",
			"sidecar.istio.io/extraStatTags",
			"sidecar.istio.io/inject",
			"sidecar.istio.io/interceptionMode",
			"sidecar.istio.io/logLevel",
			"sidecar.istio.io/nativeSidecar",
			"sidecar.istio.io/proxyCPU",
			"sidecar.istio.io/proxyCPULimit",
			"sidecar.istio.io/proxyImage",
			"sidecar.istio.io/proxyImageType",
			"sidecar.istio.io/proxyMemory",
			"sidecar.istio.io/proxyMemoryLimit",
			"sidecar.istio.io/rewriteAppHTTPProbers",
			"sidecar.istio.io/status",
			"sidecar.istio.io/userVolume",
			"sidecar.istio.io/userVolumeMount",
			"status.sidecar.istio.io/port",
			"traffic.sidecar.istio.io/excludeInboundPorts",
			"traffic.sidecar.istio.io/excludeInterfaces",
			"traffic.sidecar.istio.io/excludeOutboundIPRanges",
			"traffic.sidecar.istio.io/excludeOutboundPorts",
			"traffic.sidecar.istio.io/includeInboundPorts",
			"traffic.sidecar.istio.io/includeOutboundIPRanges",
			"traffic.sidecar.istio.io/includeOutboundPorts",
			"traffic.sidecar.istio.io/kubevirtInterfaces",
		),
		group(false, noAmbient,
			"ambient.istio.io/bypass-inbound-capture",
			"ambient.istio.io/dns-capture",
			"ambient.istio.io/redirection",
			"ambient.istio.io/waypoint-inbound-binding",
			"istio.io/use-waypoint-canary-weight",
		),
		group(false, oneCluster, "topology.istio.io/controlPlaneClusters", "traffic.istio.io/nodeSelector"),
		group(false, ownAgent,
			"sidecar.istio.io/statsEvictionInterval",
			"sidecar.istio.io/statsFlushInterval",
			"sidecar.istio.io/statsHistogramBins",
			"sidecar.istio.io/statsHistogramBuckets",
		),
		group(false, statsConfig, "sidecar.istio.io/statsCompression"),
		group(false, statsNames,
			"sidecar.istio.io/statsInclusionPrefixes",
			"sidecar.istio.io/statsInclusionRegexps",
			"sidecar.istio.io/statsInclusionSuffixes",
		),
		group(false, "has no effect: `lateen analyze` suppresses nothing", "galley.istio.io/analyze-suppress"),
		group(false, "has no effect: who deploys a Gateway is told by the fields that it owns",
			"gateway.istio.io/controller-version"),
		group(false, "has no effect: what is deployed for a Gateway has its name and class",
			"gateway.istio.io/name-override", "gateway.istio.io/service-account"),
		group(false, "has no effect: a proxy is ready when it is configured",
			"readiness.status.sidecar.istio.io/applicationPorts"),
		group(false, "has no effect; want it in proxy.istio.io/config", "sidecar.istio.io/discoveryAddress"),
	)
}

func labels() []Name {
	return slices.Concat(
		group(true, "",
			"gateway.istio.io/managed",
			"gateway.networking.k8s.io/gateway-class-name",
			"gateway.networking.k8s.io/gateway-name",
			"istio.io/rev",
			"istio.io/tag",
			"networking.istio.io/enable-autoallocate-ip",
			"operator.istio.io/component",
			"security.istio.io/tlsMode",
			"service.istio.io/canonical-name",
			"service.istio.io/canonical-revision",
			"service.istio.io/workload-name",
			"sidecar.istio.io/inject",
			"topology.istio.io/locality",
			"topology.istio.io/subzone",
		),
		group(true, noAmbient,
			"istio.io/dataplane-mode",
			"istio.io/ingress-use-waypoint",
			"istio.io/use-waypoint",
			"istio.io/use-waypoint-canary",
			"istio.io/use-waypoint-canary-namespace",
			"istio.io/use-waypoint-namespace",
			"istio.io/waypoint-for",
		),
		group(true, oneCluster, "networking.istio.io/gatewayPort", "topology.istio.io/cluster",
			"topology.istio.io/network"),
		group(true, neverRead, "operator.istio.io/managed", "operator.istio.io/version"),
	)
}
