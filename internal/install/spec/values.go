package spec

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// elsewhere returns the values of Istio's charts that Lateen's have not, and why. A path stands for
// all that is below it. Those below pilot stand without that prefix too, as in Istio's chart.
func elsewhere() map[string]string {
	return map[string]string{
		"pilot.enabled":                             "without effect: the control plane is what is installed",
		"pilot.hub":                                 "without effect: it names istiod's images; want --image",
		"pilot.tag":                                 "without effect: it names istiod's images; want --image",
		"pilot.variant":                             "without effect: it names istiod's images",
		"pilot.traceSampling":                       "without effect; want meshConfig.defaultConfig.tracing.sampling",
		"pilot.configMap":                           "without effect: meshConfig makes the ConfigMap",
		"pilot.taint":                               "without effect: taints of nodes are left to others",
		"pilot.seccompProfile":                      "without effect: it is RuntimeDefault",
		"pilot.securityContext":                     "without effect: it is the most restricted",
		"pilot.jwksResolverExtraRootCA":             notRead,
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
		"global.certificates":                       notRead,
		"global.configCluster":                      notRead,
		"global.configRootNamespace":                "without effect: the root namespace is that of the control plane",
		"global.configValidation":                   "without effect: the webhook validates",
		"global.createRemoteSvcEndpoints":           notRead,
		"global.defaultConfigVisibilitySettings":    notRead,
		"global.defaultNodeSelector":                "without effect; want pilot.nodeSelector",
		"global.defaultResources":                   "without effect; want pilot.resources and global.proxy.resources",
		"global.defaultTolerations":                 "without effect; want pilot.tolerations",
		"global.enableReaderRBAC":                   notRead,
		"global.externalIstiod":                     notRead,
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
		"global.proxy.protocolDetectionTimeout":     "without effect; want meshConfig.protocolDetectionTimeout",
		"base.enableIstioConfigCRDs":                allKinds,
		"base.validationURL":                        notRead,
		"base.validationCABundle":                   "without effect: the control plane makes its certificate",
		"base.excludedCRDs":                         "without effect: it is of the chart base",
		"istio_cni":                                 ofPlugin,
		"ztunnel":                                   ambient,
		"compatibilityVersion":                      "without effect: Lateen has one behaviour",
		"experimental":                              notRead,
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
		"sidecarInjectorWebhook.objectSelector":     notRead,
		"sidecarInjectorWebhook.injectLabel":        notRead,
		"sidecarInjectorWebhook.injectURL":          notRead,
		"sidecarInjectorWebhook.injectionURL":       notRead,
		"sidecarInjectorWebhook.useLegacySelectors": notRead,
		"sidecarInjectorWebhookAnnotations":         notRead,
		"telemetry":                                 metrics,
	}
}

const (
	notRead  = "without effect: Lateen does not read it"
	allKinds = "without effect: the kinds are always installed; want --crds=false"
	metrics  = "without effect: proxies always have Istio's standard metrics; want a Telemetry"
	ambient  = "without effect: ambient mode is not served"
	// ofPlugin is about the chart of Istio's CNI plugin, which stands beside Lateen's.
	ofPlugin = "without effect: it is of Istio's chart cni, which is installed for itself (docs/guides/cni.md)"
)

// ofOtherChart says why values are not for Lateen: they are those of another chart of Istio's, told
// by names that no other has, and by having none of istiod's. What else they have means something
// else there. Empty: they are not.
func ofOtherChart(given map[string]any) string {
	for _, name := range []string{"pilot", "meshConfig", "revision", "revisionTags", "sidecarInjectorWebhook", "cni"} {
		if _, has := given[name]; has {
			return "" // a file for several charts: each name is looked at
		}
	}
	for name, why := range map[string]string{
		"cniBinDir": ofPlugin, "cniConfDir": ofPlugin, "cniConfFileName": ofPlugin, "istioOwnedCNIConfig": ofPlugin,
		"xdsAddress": ambient, "peerCaCrl": ambient,
	} {
		if _, has := given[name]; has {
			return why
		}
	}
	return ""
}

// excludedKinds takes the names of the definitions that are not to be installed.
func (r *Reader) excludedKinds(path string, base map[string]any) {
	names, set := base["excludedCRDs"]
	if !set {
		return
	}
	delete(base, "excludedCRDs")
	list, ok := names.([]any)
	r.spec.ExcludedKinds = nil
	for _, name := range list {
		text, isText := name.(string)
		ok = ok && isText
		r.spec.ExcludedKinds = append(r.spec.ExcludedKinds, text)
	}
	if !ok && names != nil {
		r.fail("%s = %v; want a list of names, as [sidecars.networking.istio.io]", path, names)
	}
}

// valuesOf takes values of Istio's charts: those that Lateen's chart knows too are kept.
func (r *Reader) valuesOf(path string, given map[string]any) {
	given = unwrapped(given)
	if why := ofOtherChart(given); why != "" && r.file != "" {
		r.leavesAs(path, given, why)
		return
	}
	if name, ok := given["profile"].(string); ok {
		r.valuesProfile(join(path, "profile"), name)
		delete(given, "profile")
	}
	if gateways, ok := given["gateways"]; ok {
		r.gatewayValues(r.fieldsOf(join(path, "gateways"), gateways))
		delete(given, "gateways")
	}
	if base, ok := given["base"].(map[string]any); ok {
		if enabled, set := base["enableCRDTemplates"].(bool); set {
			r.spec.SkipKinds = !enabled
			delete(base, "enableCRDTemplates")
		}
		r.excludedKinds(join(path, "base.excludedCRDs"), base)
	}
	r.pluginValues(path, given)
	kept := r.known(path, nil, given)
	r.noteTemplates(path, kept)
	r.values = merge(r.values, r.belowPilot(kept))
}

// ofTemplates returns the values that the built-in templates of the injection do not read, and
// those of a user may.
func ofTemplates() []string {
	return []string{
		"global.mountMtlsCerts", "global.nativeNftables", "global.proxy.forceApplyIptables", "global.proxy.tracer",
		"global.proxy_init.forceApplyIptables", "global.proxy_init.resources", "global.sts.servicePort",
	}
}

// noteTemplates tells which values only templates of the user read, where they ask for something.
func (r *Reader) noteTemplates(prefix string, given map[string]any) {
	for _, path := range ofTemplates() {
		switch value := at(given, path); {
		case value == nil, slices.Contains([]string{"", "0", "false", "none"}, textOf(value)):
		default:
			r.note(join(prefix, path), value, "without effect, except in templates of your own")
		}
	}
}

// internalDefaults is the key that Istio's charts have around all of their values.yaml, so that
// profiles stand between these and what a user sets.
const internalDefaults = "_internal_defaults_do_not_set"

// unwrapped returns values of which those below internalDefaults stand beneath the others.
func unwrapped(given map[string]any) map[string]any {
	inner, ok := given[internalDefaults].(map[string]any)
	if !ok {
		return given
	}
	outer := maps.Clone(given)
	delete(outer, internalDefaults)
	return merge(merge(nil, inner), outer)
}

// belowPilot moves the values that Istio's chart has with the prefix "pilot." and without it below
// pilot, where those of the same document stand above them.
func (r *Reader) belowPilot(values map[string]any) map[string]any {
	moved := map[string]any{}
	for name, value := range values {
		if name != "pilot" && r.schema.Knows([]string{name}) && r.schema.Names("pilot", name) {
			moved[name] = value
			delete(values, name)
		}
	}
	if len(moved) > 0 {
		values["pilot"] = merge(moved, object(values["pilot"]))
	}
	return values
}

// valuesProfile takes a profile of Istio's charts: its values, without gateways.
func (r *Reader) valuesProfile(path, name string) {
	p, known := profiles()[name]
	switch {
	case name == "":
	case !known:
		r.fail("%s = %q; want one of %s", path, name, strings.Join(served(profiles()), ", "))
	case p.refused != "":
		r.fail("%s = %q: %s", path, name, p.refused)
	default:
		r.values = merge(p.values, r.values)
	}
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
		if why := whyElsewhere(dotted); why != "" && !r.schema.Knows(at) {
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

// whyElsewhere says why Lateen's chart has not a value; empty: nothing is known of it.
func whyElsewhere(path string) string {
	all := elsewhere()
	return cmp.Or(all[path], all["pilot."+path])
}

// leavesAs reports each value below a path with the same outcome.
func (r *Reader) leavesAs(path string, value any, outcome string) {
	if of, ok := value.(map[string]any); ok && len(of) > 0 {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			r.leavesAs(join(path, name), of[name], outcome)
		}
		return
	}
	r.note(path, value, outcome)
}
