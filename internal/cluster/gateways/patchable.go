package gateways

import (
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// patchable is a kind of object that parameters change.
type patchable struct {
	kind string
	// key is where ConfigMaps have the patch.
	key string
	// schema is a value of the object's type.
	schema any
	// allowed is what patches may set.
	allowed *rule
	// pinned are fields that stay as they are, whatever patches set or take away.
	pinned []string
}

func serviceAccounts() patchable {
	return patchable{
		accountKind, "serviceAccount", corev1.ServiceAccount{},
		named(below().free("automountServiceAccountToken", "imagePullSecrets")), nil,
	}
}

func deployments(account string) patchable {
	template := below().
		with(below().free("creationTimestamp").with(templateLabels(), "labels").
			with(templateAnnotations(), "annotations"), "metadata").
		with(podSpec(account), "spec")
	return patchable{
		deploymentKind, "deployment", appsv1.Deployment{},
		named(below().with(below().
			free("minReadySeconds", "paused", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit", "selector",
				"strategy").
			with(template, "template"), "spec")),
		[]string{"spec.selector", "spec.template.spec.serviceAccountName"},
	}
}

// services may not take addresses that traffic of others goes to, nor lead to other Pods.
func services() patchable {
	return patchable{
		"Service", "service", corev1.Service{},
		named(below().with(below().
			free("allocateLoadBalancerNodePorts", "clusterIP", "clusterIPs", "externalTrafficPolicy",
				"healthCheckNodePort", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy", "loadBalancerClass",
				"loadBalancerIP", "loadBalancerSourceRanges", "ports", "publishNotReadyAddresses", "selector",
				"sessionAffinity", "sessionAffinityConfig", "trafficDistribution").
			with(oneOf("ClusterIP", "NodePort", "LoadBalancer"), "type"), "spec")),
		[]string{"spec.selector"},
	}
}

func autoscalers() patchable {
	return patchable{
		"HorizontalPodAutoscaler", "horizontalPodAutoscaler", autoscalingv2.HorizontalPodAutoscaler{},
		named(below().with(
			below().free("behavior", "maxReplicas", "metrics", "minReplicas", "scaleTargetRef"), "spec",
		)),
		[]string{"spec.scaleTargetRef"},
	}
}

func budgets() patchable {
	return patchable{
		"PodDisruptionBudget", "podDisruptionBudget", policyv1.PodDisruptionBudget{},
		named(below().with(
			below().free("maxUnavailable", "minAvailable", "selector", "unhealthyPodEvictionPolicy"), "spec",
		)),
		[]string{"spec.selector"},
	}
}

// named adds what each object has. What identifies it may be written, and stays as it is; a status
// has no effect.
func named(r *rule) *rule {
	return r.free("apiVersion", "kind", "status").with(
		below().free("annotations", "creationTimestamp", "finalizers", "generation", "managedFields", "name",
			"namespace", "ownerReferences", "resourceVersion", "uid").
			with(&rule{keys: managedLabels}, "labels"), "metadata")
}

// ownLabels say which Gateway and which manager an object is of.
func ownLabels() []string { return []string{istiodLabel, model.GatewayNameLabel, classLabel} }

// checkPinned returns an error if patches have changed what stays as it is.
func (p patchable) checkPinned(before, after map[string]any) error {
	for _, path := range p.pinned {
		if now := at(after, path); !reflect.DeepEqual(at(before, path), now) {
			return invalidf("%s = %v may not be set by parameters; want it as it is, or not at all", path, now)
		}
	}
	if p.kind != deploymentKind {
		return nil
	}
	const metadata = "spec.template.metadata."
	for _, of := range []struct {
		path string
		kept func(key string) bool
	}{
		{metadata + "labels", func(key string) bool { return key == injectLabel || slices.Contains(ownLabels(), key) }},
		{metadata + "annotations", steersInjection},
	} {
		was, _ := at(before, of.path).(map[string]any)
		is, _ := at(after, of.path).(map[string]any)
		for _, both := range [][2]map[string]any{{was, is}, {is, was}} {
			for key, value := range both[0] {
				if of.kept(key) && !reflect.DeepEqual(value, both[1][key]) {
					return invalidf("%s[%s] may not be set by parameters, nor taken away", of.path, key)
				}
			}
		}
	}
	return nil
}

// at returns the value of a field by its path, nil if there is none.
func at(object map[string]any, path string) any {
	var value any = object
	for name := range strings.SplitSeq(path, ".") {
		of, _ := value.(map[string]any)
		value = of[name]
	}
	return value
}
