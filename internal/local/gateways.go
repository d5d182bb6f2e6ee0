package local

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// gateways are the Gateways of the Gateway API that name no workloads of their own. Each gets a
// Deployment, a Service and a ServiceAccount, as in a cluster, by the name GATEWAY-CLASS. An object
// of that name that a user has written comes first.
type gateways struct {
	declared map[source.Key]declared[*gatewayv1.Gateway]
	classes  map[string]string // names of controllers, by class
	written  map[source.Key]bool
	made     map[source.Key]source.Change
}

func newGateways() *gateways {
	return &gateways{
		declared: map[source.Key]declared[*gatewayv1.Gateway]{}, classes: map[string]string{},
		written: map[source.Key]bool{}, made: map[source.Key]source.Change{},
	}
}

// expand returns changes with those of the objects that Gateways are deployed as.
func (g *gateways) expand(changes []source.Change) []source.Change {
	for _, c := range changes {
		switch c.Key.Kind {
		case kinds.KubernetesGateway:
			declare(g.declared, c)
		case kinds.GatewayClass:
			delete(g.classes, c.Key.Name)
			if class, ok := c.Object.(*gatewayv1.GatewayClass); ok {
				g.classes[c.Key.Name] = string(class.Spec.ControllerName)
			}
		case kinds.Deployment, kinds.Service, kinds.ServiceAccount:
			g.written[c.Key] = c.Object != nil
		}
	}
	if len(g.declared)+len(g.made) == 0 {
		return changes
	}
	wanted := map[source.Key]source.Change{}
	for key, gateway := range g.declared {
		if !g.isDeployed(gateway.object) {
			continue
		}
		for _, c := range objectsOfGateway(key, gateway) {
			if !g.written[c.Key] {
				wanted[c.Key] = c
			}
		}
	}
	return g.replace(slices.Clone(changes), wanted)
}

// replace adds what it takes to get from what was made to what is wanted.
func (g *gateways) replace(changes []source.Change, wanted map[source.Key]source.Change) []source.Change {
	keys := maps.Clone(wanted)
	maps.Copy(keys, g.made)
	for _, k := range slices.SortedFunc(maps.Keys(keys), source.Key.Compare) {
		now, is := wanted[k]
		before, was := g.made[k]
		switch {
		case is && (!was || !reflect.DeepEqual(before.Object, now.Object)):
			changes = append(changes, now)
		case !is && !g.written[k]: // else the user's own is among the changes
			changes = append(changes, source.Change{Key: k})
		}
	}
	g.made = wanted
	return changes
}

// isDeployed reports whether a Gateway is of a class of Lateen's and names no Service by its host.
func (g *gateways) isDeployed(o *gatewayv1.Gateway) bool {
	class := string(o.Spec.GatewayClassName)
	ours := slices.Contains(model.BuiltInGatewayClasses(), class)
	if controller, known := g.classes[class]; known {
		ours = controller == model.GatewayController
	}
	if !ours {
		return false
	}
	return len(o.Spec.Addresses) == 0 ||
		o.Spec.Addresses[0].Type == nil || *o.Spec.Addresses[0].Type == gatewayv1.IPAddressType
}

// objectsOfGateway returns what a Gateway is deployed as.
func objectsOfGateway(k source.Key, of declared[*gatewayv1.Gateway]) []source.Change {
	g := of.object
	selector := map[string]string{model.GatewayNameLabel: k.Name}
	meta := metav1.ObjectMeta{
		Namespace: k.Namespace, Name: k.Name + "-" + string(g.Spec.GatewayClassName), Labels: selector,
		CreationTimestamp: g.CreationTimestamp,
	}
	service := &corev1.Service{
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: selector, Ports: portsOfGateway(g),
		},
	}
	one := int32(1)
	workload := &appsv1.Deployment{
		ObjectMeta: meta,
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: selector, Annotations: map[string]string{kinds.TemplatesAnnotation: "gateway"},
				},
				Spec: corev1.PodSpec{
					ServiceAccountName: meta.Name,
					Containers:         []corev1.Container{{Name: proxyContainer, Image: "auto"}},
				},
			},
		},
	}
	change := func(kind kinds.Kind, o metav1.Object) source.Change {
		return source.Change{
			Key: source.Key{Kind: kind, Namespace: meta.Namespace, Name: meta.Name}, Object: o, Origin: of.origin,
		}
	}
	return []source.Change{
		change(kinds.ServiceAccount, &corev1.ServiceAccount{ObjectMeta: meta}),
		change(kinds.Service, service), change(kinds.Deployment, workload),
	}
}

// rootPorts are those that only root may open; the Envoy opens the port as much higher.
const (
	rootPorts  = 1024
	portOffset = 8000
)

// portsOfGateway returns a port for each one of the listeners.
func portsOfGateway(g *gatewayv1.Gateway) []corev1.ServicePort {
	var all []corev1.ServicePort
	for _, l := range g.Spec.Listeners {
		port := l.Port
		has := func(p corev1.ServicePort) bool { return p.Port == port }
		if slices.ContainsFunc(all, has) || l.Protocol == gatewayv1.UDPProtocolType {
			continue
		}
		name, target := strings.ToLower(string(l.Protocol)), port
		if target < rootPorts {
			target += portOffset
		}
		all = append(all, corev1.ServicePort{
			Name: fmt.Sprintf("%s-%d", name, port), Port: port, TargetPort: intstr.FromInt32(target),
			Protocol: corev1.ProtocolTCP,
		})
	}
	return all
}
