package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// noAddons is what becomes of addons: Maistra's operator installs them, Lateen installs none.
const noAddons = "not installed: install it beside Lateen; its metrics have Istio's names"

// controlPlane reads Maistra's ServiceMeshControlPlane, version v2.
func (r *Reader) controlPlane(in map[string]any) {
	f := r.fieldsOf("", in)
	f.ignore("apiVersion", "kind", "status")
	metadata := f.below("metadata")
	if namespace := metadata.text("namespace"); namespace != "" {
		r.spec.Namespace = namespace
	}
	if mesh, set := f.take("meshConfig"); set {
		r.note("meshConfig", mesh, "read as spec.meshConfig, where it belongs")
		r.mesh(object(mesh))
	}
	spec := f.below("spec")
	f.reportUnread()
	spec.note("without effect: Lateen has versions of its own", "version")
	spec.note("without effect: there are no profiles of Maistra", "profiles")
	if mode := spec.text("mode"); mode != "" && mode != "MultiTenant" && mode != "ClusterWide" {
		r.fail("spec.mode = %q; want MultiTenant or ClusterWide", mode)
	}
	r.mesh(spec.below("meshConfig").in)
	r.runtime(spec.below("runtime"))
	r.maistraGateways(spec.below("gateways"))
	r.general(spec.below("general"))
	r.maistraProxy(spec.below("proxy"))
	r.security(spec.below("security"))
	r.tracing(spec.below("tracing"))
	r.addons(spec.below("addons"))
	cluster := spec.below("cluster")
	cluster.to(r.values, "name", "global.multiCluster.clusterName", "network", "global.network")
	cluster.reportUnread()
	spec.reportUnread()
}

// mesh adds to the mesh configuration.
func (r *Reader) mesh(in map[string]any) {
	if len(in) > 0 {
		r.values["meshConfig"] = merge(object(r.values["meshConfig"]), in)
	}
}

// runtime reads the Deployment of the control plane.
func (r *Reader) runtime(f fields) {
	components := f.below("components")
	pilot := components.below("pilot")
	deployment, pod, container := pilot.below("deployment"), pilot.below("pod"), pilot.below("container")
	deployment.replicas(r.values, replicaPaths{
		enabled: "pilot.autoscaleEnabled", count: "pilot.replicaCount", least: "pilot.autoscaleMin",
		most: "pilot.autoscaleMax", cpu: "pilot.cpu.targetAverageUtilization",
	})
	metadata := pod.below("metadata")
	metadata.to(r.values, "labels", "pilot.podLabels", "annotations", "pilot.podAnnotations")
	metadata.reportUnread()
	pod.to(r.values, "nodeSelector", "pilot.nodeSelector", "tolerations", "pilot.tolerations",
		"affinity", "pilot.affinity", "priorityClassName", "global.priorityClassName")
	pod.reportUnread()
	container.to(r.values, "env", "pilot.env", "resources", "pilot.resources",
		"imagePullPolicy", "global.imagePullPolicy")
	container.note("without effect: it names istiod's image; want --image", "image", "imageName", "imageRegistry",
		"imageTag")
	container.reportUnread()
	pilot.reportUnread()
	for _, name := range []string{"kiali", "prometheus", "grafana", "tracing", "tracing.jaeger"} {
		components.note(noAddons, name)
	}
	components.reportUnread()
	f.reportUnread()
}

// replicaPaths are where values say how many replicas run.
type replicaPaths struct{ enabled, count, least, most, cpu string }

// replicas reads Maistra's deployment. A number of replicas turns autoscaling off, unless that is
// on.
func (f fields) replicas(values map[string]any, to replicaPaths) {
	scaling := f.below("autoScaling")
	if on := scaling.bool("enabled", false); f.has("replicas") {
		put(values, to.enabled, on)
		f.to(values, "replicas", to.count)
	}
	scaling.to(values, "minReplicas", to.least, "maxReplicas", to.most, "targetCPUUtilizationPercentage", to.cpu)
	scaling.reportUnread()
	f.reportUnread()
}

// maistraGateways reads the gateways, which are there unless they are turned off.
func (r *Reader) maistraGateways(f fields) {
	all := f.bool("enabled", true)
	for _, c := range []struct{ field, name string }{{"ingress", ingressGateway}, {"egress", egressGateway}} {
		g, of := r.gateway(c.name, ""), f.below(c.field)
		g.enable(of.bool("enabled", true) && all)
		r.maistraGateway(g, of)
	}
	for _, field := range []string{"additionalIngress", "additionalEgress"} {
		more := f.below(field)
		for _, name := range slices.Sorted(maps.Keys(more.in)) {
			of := more.below(name)
			g := r.gateway(name, of.text("namespace"))
			g.enable(of.bool("enabled", true) && all)
			r.maistraGateway(g, of)
		}
	}
	route := f.below("openshiftRoute")
	if route.bool("enabled", false) {
		r.note(route.at("enabled"), true, "without effect: no Routes of OpenShift are made")
	}
	route.reportUnread()
	f.reportUnread()
}

func (r *Reader) maistraGateway(g *gateway, f fields) {
	if namespace := f.text("namespace"); namespace != "" {
		g.Namespace = namespace
	}
	service := f.below("service")
	metadata := service.below("metadata")
	metadata.to(g.Values, "labels", "labels", "annotations", "service.annotations")
	metadata.reportUnread()
	service.to(g.Values, "type", "service.type", "ports", "service.ports", "loadBalancerIP",
		"service.loadBalancerIP", "externalTrafficPolicy", "service.externalTrafficPolicy")
	service.reportUnread()
	runtime := f.below("runtime")
	runtime.below("deployment").replicas(g.Values, replicaPaths{
		enabled: "autoscaling.enabled", count: "replicaCount", least: "autoscaling.minReplicas",
		most: "autoscaling.maxReplicas", cpu: "autoscaling.targetCPUUtilizationPercentage",
	})
	container := runtime.below("container")
	container.to(g.Values, "resources", "resources", "env", "env")
	container.reportUnread()
	runtime.reportUnread()
	f.reportUnread()
}

// general reads the log levels.
func (r *Reader) general(f fields) {
	logging := f.below("logging")
	levels := logging.below("componentLevels")
	if level := levels.text("default"); level != "" {
		put(r.values, "global.logging.level", "default:"+level)
	}
	for _, scope := range slices.Sorted(maps.Keys(levels.in)) {
		levels.note("without effect: Lateen has one log level, that of default", scope)
	}
	logging.to(r.values, "logAsJSON", "global.logAsJson")
	logging.reportUnread()
	if messages, set := f.take("validationMessages"); set {
		r.note(f.at("validationMessages"), messages, "done otherwise: the condition Accepted says what is wrong")
	}
	f.reportUnread()
}

// maistraProxy reads what all proxies have.
func (r *Reader) maistraProxy(f fields) {
	accessLog := f.below("accessLogging")
	file := accessLog.below("file")
	file.to(r.values, "name", "meshConfig.accessLogFile", "format", "meshConfig.accessLogFormat",
		"encoding", "meshConfig.accessLogEncoding")
	file.reportUnread()
	accessLog.reportUnread()
	logging := f.below("logging")
	logging.to(r.values, "level", "global.proxy.logLevel")
	if levels := logging.below("componentLevels"); len(levels.in) > 0 {
		var all []string
		for _, component := range slices.Sorted(maps.Keys(levels.in)) {
			all = append(all, fmt.Sprintf("%s:%v", component, levels.in[component]))
		}
		put(r.values, "global.proxy.componentLogLevel", strings.Join(all, ","))
	}
	logging.reportUnread()
	injection := f.below("injection")
	if injection.has("autoInject") {
		policy := "disabled"
		if injection.bool("autoInject", true) {
			policy = "enabled"
		}
		put(r.values, "global.proxy.autoInject", policy)
	}
	injection.reportUnread()
	runtime := f.below("runtime")
	container := runtime.below("container")
	container.to(r.values, "resources", "global.proxy.resources", "imagePullPolicy", "global.imagePullPolicy")
	container.reportUnread()
	runtime.reportUnread()
	f.to(r.values, "concurrency", "meshConfig.defaultConfig.concurrency")
	r.networking(f.below("networking"))
	f.reportUnread()
}

// networking reads which connections go through proxies.
func (r *Reader) networking(f fields) {
	f.to(r.values, "clusterDomain", "global.proxy.clusterDomain", "connectTimeout", "meshConfig.connectTimeout")
	traffic := f.below("trafficControl")
	in, out := traffic.below("inbound"), traffic.below("outbound")
	for _, c := range []struct {
		of         fields
		from, into string
	}{
		{in, "includedPorts", "includeInboundPorts"}, {in, "excludedPorts", "excludeInboundPorts"},
		{out, "includedIPRanges", "includeIPRanges"}, {out, "excludedIPRanges", "excludeIPRanges"},
		{out, "excludedPorts", "excludeOutboundPorts"},
	} {
		var words []string
		for _, element := range c.of.list(c.from) {
			words = append(words, fmt.Sprint(element))
		}
		if len(words) > 0 {
			put(r.values, "global.proxy."+c.into, strings.Join(words, ","))
		}
	}
	out.to(r.values, "policy", "meshConfig.outboundTrafficPolicy.mode")
	in.reportUnread()
	out.reportUnread()
	traffic.reportUnread()
	initialization := f.below("initialization")
	initialization.note("without effect: Maistra's CNI plugin serves its own control plane; want "+
		"pilot.cni.enabled=true and Istio's chart cni", "type")
	initialization.reportUnread()
	f.reportUnread()
}

// security reads the trust domain and what proxies speak.
func (r *Reader) security(f fields) {
	trust := f.below("trust")
	trust.to(r.values, "domain", "meshConfig.trustDomain", "additionalDomains", "meshConfig.trustDomainAliases")
	trust.reportUnread()
	plane := f.below("dataPlane")
	plane.to(r.values, "automtls", "meshConfig.enableAutoMtls")
	r.spec.Strict = plane.bool("mtls", r.spec.Strict)
	plane.reportUnread()
	control := f.below("controlPlane")
	if !control.bool("mtls", true) {
		r.note(control.at("mtls"), false, "without effect: proxies always reach the control plane by TLS")
	}
	control.reportUnread()
	f.reportUnread()
}

// tracing reads the tracer. None is what Lateen does without it.
func (r *Reader) tracing(f fields) {
	if kind := f.text("type"); kind != "" && kind != "None" {
		r.note(f.at("type"), kind, "not installed: want meshConfig.extensionProviders and a Telemetry")
	}
	f.reportUnread()
}

// addons reports those that are turned on. None is installed.
func (r *Reader) addons(f fields) {
	for _, name := range slices.Sorted(maps.Keys(f.in)) {
		of := f.below(name)
		on := of.bool("enabled", len(of.in) > 0)
		if on {
			r.note(of.at("enabled"), true, noAddons)
		}
		if !on {
			clear(of.in) // what an addon that is off would have
		}
		of.reportUnread()
	}
}

// members are the namespaces of a mesh.
type members struct {
	names     []string
	selectors []any
	all       bool
}

// memberRoll reads Maistra's ServiceMeshMemberRoll.
func (r *Reader) memberRoll(in map[string]any) {
	f := r.fieldsOf("", in)
	f.ignore("apiVersion", "kind", "status")
	metadata := f.below("metadata")
	if namespace := metadata.text("namespace"); namespace != "" && r.spec.Namespace == "" {
		r.spec.Namespace = namespace
	}
	spec := f.below("spec")
	f.reportUnread()
	if r.members == nil {
		r.members = &members{}
	}
	for i, element := range spec.list("members") {
		name, ok := element.(string)
		if !ok {
			r.fail("spec.members[%d] = %s: want the name of a namespace", i, short(element))
			continue
		}
		r.members.all = r.members.all || name == "*"
		r.members.names = append(r.members.names, name)
	}
	r.members.selectors = append(r.members.selectors, spec.list("memberSelectors")...)
	spec.reportUnread()
}

// applyMembers makes the members the scope of discovery, together with the root namespace.
func (r *Reader) applyMembers() {
	if r.members == nil {
		return
	}
	if r.members.all {
		if r.spec.MembersSelect {
			delete(object(r.values["meshConfig"]), "discoverySelectors")
		}
		r.spec.MembersSelect = false
		return
	}
	if at(r.values, "meshConfig.discoverySelectors") != nil && !r.spec.MembersSelect {
		r.note("spec.members", r.members.names,
			"without effect: meshConfig.discoverySelectors say which namespaces count")
		return
	}
	names := append([]string{r.spec.Root()}, r.members.names...)
	for _, g := range r.gateways {
		if g.Namespace != "" && g.enabled == yes {
			names = append(names, g.Namespace)
		}
	}
	slices.Sort(names)
	var values []any
	for _, name := range slices.Compact(names) {
		values = append(values, name)
	}
	selectors := []any{map[string]any{"matchExpressions": []any{map[string]any{
		"key": "kubernetes.io/metadata.name", "operator": "In", "values": values,
	}}}}
	put(r.values, "meshConfig.discoverySelectors", append(selectors, r.members.selectors...))
	r.spec.MembersSelect = true
}
