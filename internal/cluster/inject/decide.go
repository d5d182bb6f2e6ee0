package inject

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// injectName is the label, and the annotation of before, by which a Pod says that it wants a proxy
// or not.
const injectName = "sidecar.istio.io/inject"

// systemNamespaces are those whose Pods never get a proxy.
var systemNamespaces = []string{"kube-system", "kube-public", "kube-node-lease", "local-path-storage"}

// Decision says whether a Pod gets a proxy.
type Decision struct {
	Inject bool
	// Reason says why, for people.
	Reason string
	// Warning says what is wrong with what the Pod asks for; empty if nothing is.
	Warning string
}

// Decide decides on a Pod in a namespace. Which namespaces are asked about at all is for the
// webhook's configuration.
func (i *Injector) Decide(pod *corev1.Pod, namespace string) Decision {
	if pod.Spec.HostNetwork {
		return Decision{Reason: "the Pod uses the network of its node (spec.hostNetwork)"}
	}
	if slices.Contains(systemNamespaces, namespace) {
		return Decision{Reason: "the namespace " + namespace + " belongs to Kubernetes"}
	}
	asked, what := pod.Annotations[injectName], "annotation"
	if label, ok := pod.Labels[injectName]; ok {
		asked, what = label, "label"
	}
	warning := ""
	switch asked {
	case "true", "false":
		return Decision{Inject: asked == "true", Reason: fmt.Sprintf("the %s %s is %q", what, injectName, asked)}
	case "":
	default:
		warning = fmt.Sprintf("metadata.%ss[%s] = %q says nothing; want \"true\" or \"false\"", what, injectName, asked)
	}
	d := i.byPolicy(labels.Set(pod.Labels))
	d.Warning = warning
	return d
}

// byPolicy decides on a Pod that says nothing itself.
func (i *Injector) byPolicy(of labels.Set) Decision {
	matches := func(s labels.Selector) bool { return s.Matches(of) }
	if at := slices.IndexFunc(i.never, matches); at >= 0 {
		return Decision{Reason: "neverInjectSelector selects the Pod: " + i.never[at].String()}
	}
	if at := slices.IndexFunc(i.always, matches); at >= 0 {
		return Decision{Inject: true, Reason: "alwaysInjectSelector selects the Pod: " + i.always[at].String()}
	}
	return Decision{Inject: i.Policy == Enabled, Reason: fmt.Sprintf("the policy is %q", i.Policy)}
}
