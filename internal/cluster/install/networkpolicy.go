package install

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// networkPolicy opens the ports that clients need. It does not say who they are: proxies may be in
// any namespace, and no selector knows the addresses of API servers. Kubelets may always reach the
// pods of their node, so the port of the probes is not among them.
func (o Options) networkPolicy() runtime.Object {
	rule := networkingv1.NetworkPolicyIngressRule{}
	for _, number := range []int{portSecureXDS, portMonitoring, portWebhook} {
		port := intstr.FromInt(number)
		rule.Ports = append(rule.Ports, networkingv1.NetworkPolicyPort{Port: &port})
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{
			APIVersion: networkingv1.SchemeGroupVersion.String(),
			Kind:       "NetworkPolicy",
		},
		ObjectMeta: o.meta(o.names().Deployment),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: ReplicaLabels(o.Revision)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{rule},
		},
	}
}
