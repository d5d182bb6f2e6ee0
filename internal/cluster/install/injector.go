package install

import (
	"encoding/json"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// The labels by which namespaces and Pods ask for a proxy.
const (
	injectionLabel = "istio-injection"
	injectLabel    = "sidecar.istio.io/inject"
)

// injectorConfig returns the ConfigMap of the injection. What it does not say is as the defaults
// have it.
func (o Options) injectorConfig() runtime.Object {
	values := map[string]any{}
	if o.ProxyImage != "" {
		image := map[string]any{"image": o.ProxyImage}
		values["global"] = map[string]any{"proxy": image, "proxy_init": image}
	}
	text, _ := json.Marshal(values) // maps of text alone
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: o.meta(o.names().InjectorConfig),
		Data:       map[string]string{"config": "policy: enabled\n", "values": string(text) + "\n"},
	}
}

// injector returns the configuration of the injection. Its selectors are Istio's: a Pod is asked
// about if its namespace names the revision, or if it does so itself where its namespace says
// nothing, and only if it does not decline. For the default revision, istio-injection=enabled and
// sidecar.istio.io/inject=true say the same.
//
// The policy is Fail: without its proxy a Pod would be outside of the mesh. It holds for the Pods
// that the selectors match, and for no others. The control plane's own Pods decline.
func (o Options) injector() runtime.Object {
	in := func(key string, values ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}
	}
	no := func(key string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}
	}
	notDeclined := metav1.LabelSelectorRequirement{
		Key: injectLabel, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"false"},
	}
	type requirements []metav1.LabelSelectorRequirement
	webhooks := []admissionregistrationv1.MutatingWebhook{
		o.injects("rev.namespace.", requirements{in(kinds.RevisionLabel, o.revision()), no(injectionLabel)},
			requirements{notDeclined}),
		o.injects("rev.object.", requirements{no(kinds.RevisionLabel), no(injectionLabel)},
			requirements{notDeclined, in(kinds.RevisionLabel, o.revision())}),
	}
	if o.revision() == "default" {
		webhooks = append(webhooks,
			o.injects("namespace.", requirements{in(injectionLabel, "enabled")}, requirements{notDeclined}),
			o.injects("object.", requirements{no(injectionLabel), no(kinds.RevisionLabel)},
				requirements{in(injectLabel, "true"), no(kinds.RevisionLabel)}))
	}
	meta := o.meta(o.names().Injector)
	meta.Namespace = ""
	meta.Labels["app"] = "sidecar-injector" // Istio's tools look for it
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(),
			Kind:       "MutatingWebhookConfiguration",
		},
		ObjectMeta: meta,
		Webhooks:   webhooks,
	}
}

// injects returns one webhook of the injection.
func (o Options) injects(prefix string, namespaces, pods []metav1.LabelSelectorRequirement,
) admissionregistrationv1.MutatingWebhook {
	n := o.names()
	path, port, timeout := o.InjectPath, int32(443), int32(10)
	fail, equivalent := admissionregistrationv1.Fail, admissionregistrationv1.Equivalent
	none, never := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.NeverReinvocationPolicy
	return admissionregistrationv1.MutatingWebhook{
		Name: prefix + o.InjectName,
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			Service: &admissionregistrationv1.ServiceReference{
				Namespace: n.Namespace, Name: n.Service, Path: &path, Port: &port,
			},
		},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"},
			},
		}},
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: namespaces},
		ObjectSelector:    &metav1.LabelSelector{MatchExpressions: pods},
		FailurePolicy:     &fail, SideEffects: &none, MatchPolicy: &equivalent, TimeoutSeconds: &timeout,
		ReinvocationPolicy: &never, AdmissionReviewVersions: []string{"v1"},
	}
}
