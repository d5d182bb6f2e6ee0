package gateways

import (
	"fmt"
	"maps"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// object is one that is applied. Without a body it is not wanted, and without a body and with an
// error nobody knows.
type object struct {
	kind     string
	resource schema.GroupVersionResource
	body     map[string]any
	err      error
}

// The kinds that depend on each other: Pods run as the account.
const (
	accountKind    = "ServiceAccount"
	deploymentKind = "Deployment"
)

const (
	statusPort = 15021
	// classLabel has the class of the Gateway.
	classLabel = "gateway.networking.k8s.io/gateway-class-name"
)

// deployment makes the objects of a Gateway.
type deployment struct {
	*model.GatewayDeployment
	overlays []overlay
}

// objectsOf returns the objects of a Gateway, in the order in which they are applied. Those that
// only overlays ask for are among them without a body if none does.
func objectsOf(d *model.GatewayDeployment, overlays []overlay, render Render) []object {
	m := deployment{GatewayDeployment: d, overlays: overlays}
	workload, err := m.workload(render)
	return []object{
		m.object(serviceAccounts(), m.account()),
		m.checkedWorkload(workload, err),
		m.object(services(), m.service()),
		m.optional(autoscalers(), m.autoscaler()),
		m.optional(budgets(), m.budget()),
	}
}

// resources say where the kinds are.
func resourceOf(kind string) schema.GroupVersionResource {
	switch kind {
	case deploymentKind:
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	case "HorizontalPodAutoscaler":
		return schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	case "PodDisruptionBudget":
		return schema.GroupVersionResource{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}
	case "Service":
		return schema.GroupVersionResource{Version: "v1", Resource: "services"}
	}
	return schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
}

// object returns an object of a kind with what the overlays say of it.
func (d deployment) object(of patchable, body map[string]any) object {
	o := object{kind: of.kind, resource: resourceOf(of.kind)}
	body["apiVersion"], body["kind"] = o.resource.GroupVersion().String(), of.kind
	body["metadata"] = d.meta()
	o.body, o.err = of.merged(body, d.overlays)
	return o
}

// optional leaves out an object that no overlay asks for.
func (d deployment) optional(of patchable, body map[string]any) object {
	for _, o := range d.overlays {
		if _, has := o.data[of.key]; has {
			return d.object(of, body)
		}
	}
	return object{kind: of.kind, resource: resourceOf(of.kind)}
}

func (d deployment) checkedWorkload(body map[string]any, err error) object {
	if err != nil {
		return object{kind: deploymentKind, resource: resourceOf(deploymentKind), err: err}
	}
	return d.object(deployments(d.Name), body)
}

// meta is the metadata of each object.
func (d deployment) meta() map[string]any {
	return map[string]any{
		"name": d.Name, "namespace": d.Gateway.Namespace, "labels": d.labels(), "annotations": d.Annotations.Map(),
		"ownerReferences": []metav1.OwnerReference{{
			APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway", Name: d.Gateway.Name,
			UID: types.UID(d.Gateway.UID),
		}},
	}
}

func (d deployment) selector() map[string]string {
	return map[string]string{model.GatewayNameLabel: d.Gateway.Name}
}

func (d deployment) labels() map[string]string {
	labels := d.Labels.Map()
	delete(labels, istiodLabel) // it would be istiod's then
	maps.Copy(labels, d.selector())
	labels[classLabel] = d.Class
	return labels
}

func (d deployment) account() map[string]any { return map[string]any{} }

func (d deployment) service() map[string]any {
	ports := []corev1.ServicePort{{
		Name: "status-port", Port: statusPort, TargetPort: intstr.FromInt32(statusPort), Protocol: corev1.ProtocolTCP,
	}}
	for _, p := range d.Ports {
		protocol := "http"
		switch p.Protocol {
		case model.TLS:
			protocol = "tls"
		case model.TCP:
			protocol = "tcp"
		}
		ports = append(ports, corev1.ServicePort{
			Name: fmt.Sprintf("%s-%d", protocol, p.Port), Port: int32(p.Port), AppProtocol: &protocol,
			TargetPort: intstr.FromInt32(int32(p.Port)), Protocol: corev1.ProtocolTCP,
		})
	}
	spec := map[string]any{"type": d.ServiceType, "selector": d.selector(), "ports": ports}
	if d.Address != "" && d.ServiceType == string(corev1.ServiceTypeLoadBalancer) {
		spec["loadBalancerIP"] = d.Address
	}
	return map[string]any{"spec": spec}
}

// autoscaler is what an overlay changes: without one there is none. It must say maxReplicas.
func (d deployment) autoscaler() map[string]any {
	return map[string]any{"spec": map[string]any{
		"scaleTargetRef": autoscalingv2.CrossVersionObjectReference{
			APIVersion: "apps/v1", Kind: "Deployment", Name: d.Name,
		},
	}}
}

// budget is what an overlay changes: without one there is none.
func (d deployment) budget() map[string]any {
	return map[string]any{"spec": map[string]any{"selector": metav1.LabelSelector{MatchLabels: d.selector()}}}
}
