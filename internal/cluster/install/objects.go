package install

import (
	"bytes"
	"fmt"
	"io"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// Options say which control plane to install.
type Options struct {
	Namespace string
	// Revision distinguishes it from others in the same cluster. Empty and "default" stand for the
	// only one.
	Revision string
	Image    string
	Replicas int32
	// ProxyImage is the image of injected proxies; empty for that of the defaults.
	ProxyImage string
	// WebhookName is the name of the webhook within its configuration, WebhookPath the path of its
	// requests. InjectName and InjectPath are those of the injection.
	WebhookName, WebhookPath, InjectName, InjectPath string
}

func (o Options) names() Names { return NamesOf(o.Namespace, o.Revision) }

func (o Options) revision() string {
	if o.Revision == "" {
		return "default"
	}
	return o.Revision
}

// selector returns the labels that select the pods. Istio's tools look for app=istiod.
func (o Options) selector() map[string]string {
	return map[string]string{"app": "istiod", kinds.RevisionLabel: o.revision()}
}

func (o Options) labels() map[string]string {
	labels := ReplicaLabels(o.Revision)
	labels["istio"] = "pilot"
	labels["app.kubernetes.io/part-of"] = "lateen"
	return labels
}

// ReplicaLabels returns the labels that the pods of a revision have, and those of Istio have not.
func ReplicaLabels(revision string) map[string]string {
	labels := Options{Revision: revision}.selector()
	labels["app.kubernetes.io/name"] = "lateen"
	return labels
}

func (o Options) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: o.Namespace, Labels: o.labels()}
}

// Objects returns the manifests, in an order in which they can be applied.
func Objects(o Options) []runtime.Object {
	n := o.names()
	objects := []runtime.Object{
		&corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: n.Namespace},
		},
	}
	objects = append(objects, o.roles()...)
	return append(objects,
		&corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: o.meta(n.Secret)},
		o.authority(), o.service(), o.deployment(), o.budget(), o.networkPolicy(), o.webhook(),
		o.injectorConfig(), o.injector(),
	)
}

// authority returns the Secret of the self-signed root, which the first leader fills. All revisions
// share it, so it has the labels of none.
func (o Options) authority() runtime.Object {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: ca.SelfSigned, Namespace: o.Namespace},
		Type:       ca.SelfSignedType,
	}
}

// Write writes objects as YAML documents.
func Write(out io.Writer, objects []runtime.Object) error {
	for _, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", withoutEmpty(text)); err != nil {
			return err
		}
	}
	return nil
}

// withoutEmpty removes empty fields that the types of the API always write.
func withoutEmpty(text []byte) []byte {
	for _, empty := range []string{
		"status: {}\n", "status:\n  loadBalancer: {}\n", "  strategy: {}\n", "        resources: {}\n",
		"          resources: {}\n",
		"status:\n  currentHealthy: 0\n  desiredHealthy: 0\n  disruptionsAllowed: 0\n  expectedPods: 0\n", "spec: {}\n",
	} {
		text = bytes.ReplaceAll(text, []byte("\n"+empty), []byte("\n"))
	}
	return text
}

// The ports of the pods, which are Istio's.
const (
	portHealth     = 8080
	portSecureXDS  = 15012
	portMonitoring = 15014
	portWebhook    = 15017
)

func (o Options) service() runtime.Object {
	port := func(name string, port int32, target int) corev1.ServicePort {
		return corev1.ServicePort{
			Name:       name,
			Port:       port,
			TargetPort: intstr.FromInt(target),
			Protocol:   corev1.ProtocolTCP,
		}
	}
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: o.meta(o.names().Service),
		Spec: corev1.ServiceSpec{
			Selector: o.selector(),
			Ports: []corev1.ServicePort{
				port("https-dns", portSecureXDS, portSecureXDS),
				port("https-webhook", 443, portWebhook),
				port("http-monitoring", portMonitoring, portMonitoring),
			},
		},
	}
}

func (o Options) budget() runtime.Object {
	least := intstr.FromInt(1)
	return &policyv1.PodDisruptionBudget{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: o.meta(o.names().Deployment),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &least,
			Selector:     &metav1.LabelSelector{MatchLabels: o.selector()},
		},
	}
}

// webhook returns the configuration with policy Ignore, because nothing answers yet. The leader
// sets the roots, and Fail once the webhook answers.
func (o Options) webhook() runtime.Object {
	n := o.names()
	path, port, timeout := o.WebhookPath, int32(443), int32(10)
	ignore, equivalent := admissionregistrationv1.Ignore, admissionregistrationv1.Equivalent
	none := admissionregistrationv1.SideEffectClassNone
	one := func(prefix string, selector metav1.LabelSelectorRequirement) admissionregistrationv1.ValidatingWebhook {
		return admissionregistrationv1.ValidatingWebhook{
			Name: prefix + o.WebhookName,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				Service: &admissionregistrationv1.ServiceReference{
					Namespace: n.Namespace,
					Name:      n.Service,
					Path:      &path,
					Port:      &port,
				},
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{
					admissionregistrationv1.Create, admissionregistrationv1.Update,
				},
				Rule: admissionregistrationv1.Rule{
					APIGroups:   kinds.IstioGroups(),
					APIVersions: []string{"*"}, Resources: []string{"*"},
				},
			}},
			ObjectSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{selector}},
			FailurePolicy:  &ignore, SideEffects: &none, MatchPolicy: &equivalent, TimeoutSeconds: &timeout,
			AdmissionReviewVersions: []string{"v1"},
		}
	}
	webhooks := []admissionregistrationv1.ValidatingWebhook{
		one("rev.", metav1.LabelSelectorRequirement{
			Key:      kinds.RevisionLabel,
			Operator: metav1.LabelSelectorOpIn,
			Values:   []string{o.revision()},
		}),
	}
	if o.revision() == "default" { // objects that name no revision are the default one's business
		webhooks = append(webhooks, one("", metav1.LabelSelectorRequirement{
			Key:      kinds.RevisionLabel,
			Operator: metav1.LabelSelectorOpDoesNotExist,
		}))
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta: metav1.TypeMeta{
			APIVersion: admissionregistrationv1.SchemeGroupVersion.String(),
			Kind:       "ValidatingWebhookConfiguration",
		},
		ObjectMeta: metav1.ObjectMeta{Name: n.Webhook, Labels: o.labels()},
		Webhooks:   webhooks,
	}
}
