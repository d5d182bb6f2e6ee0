package kube

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingk8s "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// builtin says how to read the objects of one of Kubernetes' own kinds.
type builtin struct {
	// trim drops from an object what no later stage reads. A test compares the meaning of both.
	trim func(metav1.Object)
	// isRelevant reports whether the object may have a meaning; nil if all may.
	isRelevant func(metav1.Object) bool
}

// builtins has all kinds that are watched and not custom.
func builtins() map[kinds.Kind]builtin {
	return map[kinds.Kind]builtin{
		kinds.Namespace:     {trim: trimmed(trimNamespace)},
		kinds.ConfigMap:     {trim: trimmed(trimConfigMap)},
		kinds.Node:          {trim: trimmed(trimNode)},
		kinds.Service:       {trim: trimmed(trimService)},
		kinds.EndpointSlice: {trim: trimmed(trimSlice)},
		kinds.Pod:           {trim: trimmed(trimPod)},
		kinds.Ingress:       {trim: trimmed(trimIngress)},
		kinds.IngressClass:  {trim: trimmed(trimIngressClass)},
		kinds.Secret:        {trim: trimmed(trimSecret), isRelevant: relevant(hasCertificates)},
	}
}

// trimmed makes a function for one type into one for all. It leaves other types alone.
func trimmed[T metav1.Object](trim func(T)) func(metav1.Object) {
	return func(o metav1.Object) {
		if typed, ok := o.(T); ok {
			trim(typed)
		}
	}
}

// relevant does the same for a predicate. Objects of other types are relevant.
func relevant[T metav1.Object](means func(T) bool) func(metav1.Object) bool {
	return func(o metav1.Object) bool {
		typed, ok := o.(T)
		return !ok || means(typed)
	}
}

func trimNamespace(o *corev1.Namespace) {
	*o = corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: o.Name, Labels: o.Labels, Annotations: annotations(o.Annotations),
	}}
}

func trimConfigMap(o *corev1.ConfigMap) {
	*o = corev1.ConfigMap{ObjectMeta: nameMeta(&o.ObjectMeta), Data: o.Data}
}

// trimBundle keeps the authorities of a ConfigMap.
func trimBundle(o *corev1.ConfigMap) {
	*o = corev1.ConfigMap{
		ObjectMeta: nameMeta(&o.ObjectMeta), Data: pick(o.Data, []string{kinds.AuthoritiesKey}),
	}
}

func trimNode(o *corev1.Node) {
	*o = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Labels: topology(o.Labels)}}
}

func trimService(o *corev1.Service) {
	meta := conflictMeta(&o.ObjectMeta)
	meta.Annotations = annotations(o.Annotations)
	if value, set := o.Labels[kinds.PortTranslationLabel]; set {
		meta.Labels = map[string]string{kinds.PortTranslationLabel: value}
	}
	status := corev1.ServiceStatus{}
	if o.Spec.Type == corev1.ServiceTypeLoadBalancer {
		status.LoadBalancer = o.Status.LoadBalancer
	}
	*o = corev1.Service{ObjectMeta: meta, Spec: o.Spec, Status: status}
}

func trimIngress(o *networkingk8s.Ingress) {
	meta := conflictMeta(&o.ObjectMeta)
	meta.Annotations = annotations(o.Annotations)
	*o = networkingk8s.Ingress{ObjectMeta: meta, Spec: o.Spec}
}

func trimIngressClass(o *networkingk8s.IngressClass) {
	*o = networkingk8s.IngressClass{
		ObjectMeta: nameMeta(&o.ObjectMeta),
		Spec:       networkingk8s.IngressClassSpec{Controller: o.Spec.Controller},
	}
}

func trimSecret(o *corev1.Secret) {
	*o = corev1.Secret{ObjectMeta: nameMeta(&o.ObjectMeta), Type: o.Type, Data: pick(o.Data, usedSecretKeys)}
}

func trimSlice(o *discoveryv1.EndpointSlice) {
	meta := nameMeta(&o.ObjectMeta)
	if service, set := o.Labels[discoveryv1.LabelServiceName]; set {
		meta.Labels = map[string]string{discoveryv1.LabelServiceName: service}
	}
	for i := range o.Endpoints {
		e := &o.Endpoints[i]
		e.DeprecatedTopology = nil
		if e.Hints != nil {
			if e.Hints.ForNodes = nil; len(e.Hints.ForZones) == 0 {
				e.Hints = nil
			}
		}
		if e.TargetRef != nil {
			e.TargetRef = &corev1.ObjectReference{
				Kind:      e.TargetRef.Kind,
				Namespace: e.TargetRef.Namespace,
				Name:      e.TargetRef.Name,
			}
		}
	}
	*o = discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: o.AddressType, Endpoints: o.Endpoints, Ports: o.Ports}
}

// trimPod keeps a Pod's labels and addresses, its node and service account, the names of its ports,
// whether its proxy is a gateway, and whether it is being deleted. Pods do not conflict with
// others, so age and UID are dropped.
func trimPod(o *corev1.Pod) {
	meta := nameMeta(&o.ObjectMeta)
	meta.DeletionTimestamp = o.DeletionTimestamp
	meta.Labels, meta.Annotations = o.Labels, annotations(o.Annotations)
	if name, set := o.Labels[appsv1.StatefulSetPodNameLabel]; set && name == meta.Name {
		o.Labels[appsv1.StatefulSetPodNameLabel] = meta.Name // one string in place of two
	}
	spec := corev1.PodSpec{ServiceAccountName: intern(o.Spec.ServiceAccountName), NodeName: intern(o.Spec.NodeName)}
	for _, c := range o.Spec.Containers {
		spec.Containers = append(spec.Containers, trimContainer(&c))
	}
	for _, c := range o.Spec.InitContainers {
		trimmed := trimContainer(&c)
		trimmed.RestartPolicy = c.RestartPolicy
		spec.InitContainers = append(spec.InitContainers, trimmed)
	}
	status := corev1.PodStatus{Phase: o.Status.Phase, PodIP: o.Status.PodIP, PodIPs: o.Status.PodIPs}
	if status.Phase != corev1.PodSucceeded && status.Phase != corev1.PodFailed {
		status.Phase = "" // all others mean the same
	}
	*o = corev1.Pod{ObjectMeta: meta, Spec: spec, Status: status}
}

// trimContainer keeps a container's ports, and of the proxy's the arguments that say what it is.
func trimContainer(c *corev1.Container) corev1.Container {
	trimmed := corev1.Container{Ports: ports(c.Ports)}
	if c.Name == kinds.ProxyContainer && len(c.Args) > 1 {
		trimmed.Name, trimmed.Args = kinds.ProxyContainer, []string{intern(c.Args[0]), intern(c.Args[1])}
	}
	return trimmed
}

func ports(list []corev1.ContainerPort) []corev1.ContainerPort {
	var out []corev1.ContainerPort
	for _, p := range list {
		out = append(
			out, corev1.ContainerPort{Name: intern(p.Name), ContainerPort: p.ContainerPort, Protocol: p.Protocol},
		)
	}
	return out
}
