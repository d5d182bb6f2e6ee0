package spec

import (
	"maps"
	"slices"
	"strings"
)

// elsewhere are values of Istio's charts that Lateen's have not, and why. A path stands for all
// that is below it.
var elsewhere = map[string]string{
	"pilot.enabled":                             "without effect: the control plane is what is installed",
	"pilot.hub":                                 "without effect: it names istiod's images; want --image",
	"pilot.tag":                                 "without effect: it names istiod's images; want --image",
	"pilot.variant":                             "without effect: it names istiod's images",
	"pilot.traceSampling":                       "without effect; want meshConfig.defaultConfig.tracing.sampling",
	"pilot.configMap":                           "without effect: meshConfig makes the ConfigMap",
	"pilot.cni":                                 noPlugin,
	"pilot.taint":                               noPlugin,
	"pilot.seccompProfile":                      "without effect: it is RuntimeDefault",
	"pilot.securityContext":                     "without effect: it is the most restricted",
	"pilot.volumes":                             notRead,
	"pilot.volumeMounts":                        notRead,
	"pilot.initContainers":                      notRead,
	"pilot.envVarFrom":                          notRead,
	"pilot.jwksResolverExtraRootCA":             notRead,
	"pilot.ipFamilies":                          notRead,
	"pilot.ipFamilyPolicy":                      notRead,
	"pilot.configSource":                        notRead,
	"pilot.configNamespace":                     notRead,
	"pilot.istiodRemote":                        notRead,
	"pilot.trustedZtunnelNamespace":             ambient,
	"pilot.trustedZtunnelName":                  ambient,
	"pilot.crlConfigMapName":                    notRead,
	"pilot.autoscalingv2API":                    "without effect: it is always autoscaling/v2",
	"pilot.useMCP":                              notRead,
	"pilot.enableProtocolSniffingForInbound":    notRead,
	"pilot.enableProtocolSniffingForOutbound":   notRead,
	"global.arch":                               notRead,
	"global.autoscalingv2API":                   "without effect: it is always autoscaling/v2",
	"global.certSigners":                        notRead,
	"global.certificates":                       notRead,
	"global.configCluster":                      notRead,
	"global.configRootNamespace":                "without effect: the root namespace is that of the control plane",
	"global.configValidation":                   "without effect: the webhook validates",
	"global.createRemoteSvcEndpoints":           notRead,
	"global.defaultConfigVisibilitySettings":    notRead,
	"global.defaultNodeSelector":                "without effect; want pilot.nodeSelector",
	"global.defaultResources":                   "without effect; want pilot.resources and global.proxy.resources",
	"global.defaultTolerations":                 "without effect; want pilot.tolerations",
	"global.externalIstiod":                     notRead,
	"global.imagePullPolicy":                    notRead,
	"global.ipFamilies":                         notRead,
	"global.ipFamilyPolicy":                     notRead,
	"global.istiod":                             notRead,
	"global.jwtPolicy":                          "without effect: tokens are always third-party tokens",
	"global.meshExpansion":                      notRead,
	"global.meshNetworks":                       notRead,
	"global.mtls":                               "without effect; want a PeerAuthentication",
	"global.networkPolicy":                      "without effect; want networkPolicy.enabled",
	"global.omitSidecarInjectorConfigMap":       notRead,
	"global.oneNamespace":                       notRead,
	"global.operatorManageWebhooks":             notRead,
	"global.platform":                           notRead,
	"global.podDNSSearchNamespaces":             notRead,
	"global.remotePilotAddress":                 notRead,
	"global.resourceScope":                      notRead,
	"global.tracer":                             notRead,
	"global.useMCP":                             notRead,
	"global.waypoint":                           ambient,
	"global.proxy.enableCoreDump":               notRead,
	"global.proxy.dnsRefreshRate":               notRead,
	"global.proxy.protocolDetectionTimeout":     notRead,
	"global.proxy.privileged":                   notRead,
	"base.enableIstioConfigCRDs":                "without effect: the kinds are always installed; want --crds=false",
	"base.validationURL":                        notRead,
	"base.validationCABundle":                   "without effect: the control plane makes its certificate",
	"base.excludedCRDs":                         notRead,
	"cni":                                       noPlugin,
	"istio_cni":                                 noPlugin,
	"ztunnel":                                   ambient,
	"compatibilityVersion":                      "without effect: Lateen has one behaviour",
	"defaultRevision":                           "without effect: objects without a revision are the default one's",
	"experimental":                              notRead,
	"gatewayClasses":                            "without effect: the Gateway API is not served",
	"istiodRemote":                              notRead,
	"istio-policy":                              notRead,
	"meshNetworks":                              notRead,
	"mixer":                                     notRead,
	"ownerName":                                 notRead,
	"platform":                                  notRead,
	"prometheus":                                "without effect: Lateen installs no addons",
	"grafana":                                   "without effect: Lateen installs no addons",
	"kiali":                                     "without effect: Lateen installs no addons",
	"tracing":                                   "without effect: Lateen installs no addons",
	"revisionTags":                              notRead,
	"sidecarInjectorWebhook.objectSelector":     notRead,
	"sidecarInjectorWebhook.injectLabel":        notRead,
	"sidecarInjectorWebhook.injectURL":          notRead,
	"sidecarInjectorWebhook.injectionURL":       notRead,
	"sidecarInjectorWebhook.useLegacySelectors": notRead,
	"sidecarInjectorWebhookAnnotations":         notRead,
	"telemetry":                                 "without effect: proxies have Envoy's own statistics",
}

const (
	notRead = "without effect: Lateen does not read it"
	ambient = "without effect: ambient mode is not served"
	// noPlugin is about Istio's CNI plugin, which sets the rules in a Pod's place.
	noPlugin = "without effect: there is no CNI plugin; the init container of each Pod, which needs NET_ADMIN, " +
		"redirects connections"
)

// valuesOf takes values of Istio's charts: those that Lateen's chart knows too are kept.
func (r *Reader) valuesOf(path string, given map[string]any) {
	if gateways, ok := given["gateways"]; ok {
		r.gatewayValues(r.fieldsOf(join(path, "gateways"), gateways))
		delete(given, "gateways")
	}
	if base, ok := given["base"].(map[string]any); ok {
		if enabled, set := base["enableCRDTemplates"].(bool); set {
			r.spec.SkipKinds = !enabled
			delete(base, "enableCRDTemplates")
		}
	}
	kept := r.known(path, nil, given)
	r.values = merge(r.values, kept)
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// known returns what the chart takes of values, and reports what Istio's charts take alone. All
// else stays, and the chart's schema refuses it.
func (r *Reader) known(prefix string, path []string, given map[string]any) map[string]any {
	kept := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		at := append(slices.Clone(path), name)
		dotted := strings.Join(at, ".")
		if why, ok := elsewhere[dotted]; ok && !r.schema.Knows(at) {
			r.leavesAs(join(prefix, dotted), value, why)
			continue
		}
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			if sub := r.known(prefix, at, below); len(sub) > 0 {
				kept[name] = sub
			}
			continue
		}
		kept[name] = value
	}
	return kept
}

// leavesAs reports each value below a path with the same outcome.
func (r *Reader) leavesAs(path string, value any, outcome string) {
	if of, ok := value.(map[string]any); ok && len(of) > 0 {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			r.leavesAs(path+"."+name, of[name], outcome)
		}
		return
	}
	r.note(path, value, outcome)
}
