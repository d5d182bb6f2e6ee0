package spec

import (
	"cmp"
	"fmt"
	"strings"
)

// operator reads an IstioOperator, as istioctl install -f takes it.
func (r *Reader) operator(object map[string]any) {
	f := r.fieldsOf("", object)
	f.ignore("apiVersion", "kind", "status")
	metadata := f.below("metadata")
	if namespace := metadata.text("namespace"); namespace != "" {
		r.spec.Namespace = namespace
	}
	r.spec.Name = metadata.text("name")
	r.profile = cmp.Or(r.profile, "default") // as in istioctl
	spec := f.below("spec")
	r.operatorSpec(spec)
	f.reportUnread()
}

// operatorSpec reads the fields of an IstioOperator's spec, which --set may name too.
func (r *Reader) operatorSpec(f fields) {
	if profile := f.text("profile"); profile != "" {
		r.profile = profile
	}
	if namespace := f.text("namespace"); namespace != "" {
		r.spec.Namespace = namespace
	}
	if revision := f.text("revision"); revision != "" {
		r.values["revision"] = revision
	}
	f.to(r.values, "hub", "global.hub", "tag", "global.tag")
	if mesh := f.below("meshConfig"); len(mesh.in) > 0 {
		r.values["meshConfig"] = merge(object(r.values["meshConfig"]), mesh.in)
	}
	for _, name := range []string{"values", "unvalidatedValues"} {
		if values := f.below(name); len(values.in) > 0 {
			r.valuesOf(f.at(name), values.in)
		}
	}
	r.components(f.below("components"))
	f.note("without effect: Lateen has one behaviour", "compatibilityVersion")
	f.note("without effect: the charts are built in", "installPackagePath")
	f.note("without effect: Lateen installs no addons", "addonComponents")
	for name, value := range f.in {
		r.fail("%s = %s: there is no such field of an IstioOperator; want one of profile, namespace, revision, hub, "+
			"tag, meshConfig, components, values", f.at(name), short(value))
	}
}

func whether(on bool) enabled {
	if on {
		return yes
	}
	return no
}

func object(value any) map[string]any {
	of, _ := value.(map[string]any)
	return of
}

// components reads what is installed beside values.
func (r *Reader) components(f fields) {
	pilot := f.below("pilot")
	if pilot.has("enabled") {
		r.pilot = whether(pilot.bool("enabled", true))
	}
	if namespace := pilot.text("namespace"); namespace != "" {
		r.spec.Namespace = namespace
	}
	r.pilotResources(pilot.below("k8s"))
	pilot.reportUnread()
	base := f.below("base")
	if base.has("enabled") {
		r.base = whether(base.bool("enabled", true))
		r.spec.SkipKinds = r.base == no
	}
	base.reportUnread()
	for _, c := range []struct{ list, name string }{
		{"ingressGateways", ingressGateway}, {"egressGateways", egressGateway},
	} {
		for i, element := range f.list(c.list) {
			r.componentGateway(r.fieldsOf(fmt.Sprintf("%s[%d]", f.at(c.list), i), element), c.name)
		}
	}
	r.componentPlugin(f.below("cni"))
	if of := f.below("ztunnel"); of.bool("enabled", false) {
		r.note(of.at("enabled"), true, elsewhere()["ztunnel"])
	}
	f.reportUnread()
}

// pilotResources reads the resources of the control plane.
func (r *Reader) pilotResources(f fields) {
	pilot := map[string]any{}
	f.to(pilot, "volumes", "volumes", "volumeMounts", "volumeMounts", "podDisruptionBudget", "pdb",
		"resources", "resources", "replicaCount", "replicaCount", "nodeSelector", "nodeSelector",
		"tolerations", "tolerations", "affinity", "affinity", "podAnnotations", "podAnnotations",
		"serviceAnnotations", "serviceAnnotations")
	r.scaling(f.below("hpaSpec"), pilot, "autoscale")
	r.environment(f, pilot)
	strategy := f.below("strategy")
	rolling := strategy.below("rollingUpdate")
	rolling.to(pilot, "maxSurge", "rollingMaxSurge", "maxUnavailable", "rollingMaxUnavailable")
	rolling.reportUnread()
	strategy.reportUnread()
	f.to(r.values, "priorityClassName", "global.priorityClassName", "imagePullPolicy", "global.imagePullPolicy")
	f.reportUnread()
	if len(pilot) > 0 {
		r.values["pilot"] = merge(object(r.values["pilot"]), pilot)
	}
}

// scaling reads the spec of a HorizontalPodAutoscaler into values that begin with a prefix.
func (r *Reader) scaling(f fields, values map[string]any, prefix string) {
	if prefix == "autoscale" {
		f.to(values, "minReplicas", "autoscaleMin", "maxReplicas", "autoscaleMax", "behavior", "autoscaleBehavior")
	} else {
		f.to(values, "minReplicas", prefix+".minReplicas", "maxReplicas", prefix+".maxReplicas",
			"behavior", prefix+".autoscaleBehavior")
	}
	f.ignore("scaleTargetRef")
	f.reportUnread()
}

// environment reads a list of variables.
func (r *Reader) environment(f fields, values map[string]any) {
	for i, element := range f.list("env") {
		of := r.fieldsOf(fmt.Sprintf("%s[%d]", f.at("env"), i), element)
		name := of.text("name")
		if value, set := of.take("value"); set && name != "" {
			put(values, "env", merge(object(values["env"]), map[string]any{name: value}))
		}
		if from, set := of.take("valueFrom"); set && name != "" {
			all, _ := values["envVarFrom"].([]any)
			values["envVarFrom"] = append(all, map[string]any{"name": name, "valueFrom": from})
		}
		of.reportUnread()
	}
}

// componentGateway reads an element of ingressGateways or egressGateways.
func (r *Reader) componentGateway(f fields, standard string) {
	g := r.gateway(cmp.Or(f.text("name"), standard), f.text("namespace"))
	g.enable(f.bool("enabled", true))
	f.to(g.Values, "label", "labels")
	k8s := f.below("k8s")
	k8s.to(g.Values, "resources", "resources", "replicaCount", "replicaCount", "nodeSelector", "nodeSelector",
		"tolerations", "tolerations", "affinity", "affinity", "podAnnotations", "podAnnotations",
		"serviceAnnotations", "service.annotations", "podDisruptionBudget", "podDisruptionBudget",
		"priorityClassName", "priorityClassName", "imagePullPolicy", "imagePullPolicy", "strategy", "strategy",
		"securityContext", "securityContext", "readinessProbe", "readinessProbe", "volumes", "volumes",
		"volumeMounts", "volumeMounts")
	r.scaling(k8s.below("hpaSpec"), g.Values, "autoscaling")
	r.environment(k8s, g.Values)
	service := k8s.below("service")
	service.to(g.Values, "type", "service.type", "ports", "service.ports", "loadBalancerIP",
		"service.loadBalancerIP", "loadBalancerSourceRanges", "service.loadBalancerSourceRanges",
		"externalTrafficPolicy", "service.externalTrafficPolicy", "externalIPs", "service.externalIPs",
		"internalTrafficPolicy", "service.internalTrafficPolicy", "loadBalancerClass", "service.loadBalancerClass",
		"healthCheckNodePort", "service.healthCheckNodePort", "clusterIP", "service.clusterIP",
		"ipFamilyPolicy", "service.ipFamilyPolicy", "ipFamilies", "service.ipFamilies",
		"allocateLoadBalancerNodePorts", "service.allocateLoadBalancerNodePorts")
	service.reportUnread()
	k8s.reportUnread()
	f.reportUnread()
	if strings.Contains(standard, "egress") {
		if at(g.Values, "service.type") == nil {
			put(g.Values, "service.type", "ClusterIP")
		}
	}
}
