package gateways

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

const (
	proxyUser = 1337
	proxyName = "istio-proxy"
	// injectLabel says whether the injection is to give a Pod its proxy.
	injectLabel = "sidecar.istio.io/inject"
	// overridesAnnotation is what the injection notes for a second one.
	overridesAnnotation = "proxy.istio.io/overrides"
)

// workload returns the Deployment, with the proxy rendered.
func (d deployment) workload(render Render) (map[string]any, error) {
	pod, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"namespace": d.Gateway.Namespace, "labels": d.podLabels(), "annotations": d.podAnnotations(),
		},
		"spec": corev1.PodSpec{
			ServiceAccountName: d.Name,
			SecurityContext: &corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{
				{Name: "net.ipv4.ip_unprivileged_port_start", Value: "0"},
			}},
			Containers: []corev1.Container{proxyContainer()},
		},
	})
	if err != nil {
		return nil, err
	}
	if pod, err = render(pod, d.Gateway.Namespace, d.Name); err != nil {
		return nil, fmt.Errorf("its Pods get no proxy: %w", err)
	}
	var rendered struct {
		Metadata struct {
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
		Spec map[string]any `json:"spec"`
	}
	if err := json.Unmarshal(pod, &rendered); err != nil {
		return nil, err
	}
	rendered.Metadata.Labels[injectLabel] = "false" // the proxy is there
	delete(rendered.Metadata.Annotations, overridesAnnotation)
	d.setResources(rendered.Spec)
	return map[string]any{"spec": map[string]any{
		"selector": metav1.LabelSelector{MatchLabels: d.selector()},
		"template": map[string]any{"metadata": rendered.Metadata, "spec": rendered.Spec},
	}}, nil
}

func (d deployment) podLabels() map[string]string {
	labels := d.labels()
	labels[injectLabel] = "true"
	return labels
}

func (d deployment) podAnnotations() map[string]string {
	annotations := d.Annotations.Map()
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return steersInjection(key) && !model.ConfiguresGatewayProxy(key)
	})
	maps.Copy(annotations, map[string]string{
		"inject.istio.io/templates": "gateway", "prometheus.io/path": "/stats/prometheus",
		"prometheus.io/port": "15020", "prometheus.io/scrape": "true",
	})
	return annotations
}

// setResources replaces the resources of the proxy by those of the annotations, if it has any: the
// template leaves a gateway those of its container. The injection has checked the quantities.
func (d deployment) setResources(spec map[string]any) {
	resources := map[string]any{}
	for _, of := range []struct{ annotation, part, name string }{
		{"sidecar.istio.io/proxyCPU", "requests", "cpu"},
		{"sidecar.istio.io/proxyMemory", "requests", "memory"},
		{"sidecar.istio.io/proxyCPULimit", "limits", "cpu"},
		{"sidecar.istio.io/proxyMemoryLimit", "limits", "memory"},
	} {
		if quantity, has := d.Annotations.Get(of.annotation); has {
			part, _ := resources[of.part].(map[string]any)
			if part == nil {
				part = map[string]any{}
			}
			part[of.name], resources[of.part] = quantity, part
		}
	}
	containers, _ := spec["containers"].([]any)
	for _, c := range containers {
		if c, _ := c.(map[string]any); len(resources) > 0 && c["name"] == proxyName {
			c["resources"] = resources
		}
	}
}

// steersInjection reports whether an annotation may say what the injection makes of a Pod. Who may
// create Gateways in a namespace may not choose its images and commands by it.
func steersInjection(annotation string) bool {
	domain, _, _ := strings.Cut(annotation, "/")
	return domain == "istio.io" || strings.HasSuffix(domain, ".istio.io")
}

// proxyContainer is what the injection makes the proxy of.
func proxyContainer() corev1.Container {
	no, yes, user := false, true, int64(proxyUser)
	return corev1.Container{
		Name: proxyName, Image: "auto", // the template sets the image
		Ports: []corev1.ContainerPort{{Name: "http-envoy-prom", ContainerPort: 15090, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, Privileged: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
			RunAsUser: &user, RunAsGroup: &user,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}
