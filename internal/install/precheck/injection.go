package precheck

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// statusAnnotation is what an injected Pod has, and proxyContainer the name of its proxy.
const (
	statusAnnotation = "sidecar.istio.io/status"
	proxyContainer   = "istio-proxy"
)

// RemoteCluster selects the Secrets by which istiod reads other clusters.
const RemoteCluster = "istio/multiCluster=true"

// OtherCluster is the verdict on a Secret that RemoteCluster selects.
func OtherCluster(namespace, name string) Verdict {
	return Verdict{Kind: "Secret", Namespace: namespace, Name: name, Findings: []Finding{{
		Field: "metadata.labels[istio/multiCluster]", Value: "true",
		Why: "Lateen reads one cluster: calls to services of the other one would have no endpoints there; " +
			"want gateways and ServiceEntries between the clusters",
	}}}
}

// PodLabels returns the labels by which a Pod asks for a proxy, also where the policy is not to
// inject by default; of a revision, if its namespace says nothing.
func PodLabels(revision string) map[string]string {
	set := map[string]string{"sidecar.istio.io/inject": "true"}
	if revision != "" {
		set[kinds.RevisionLabel] = revision
	}
	return set
}

// Injected says what is wrong with the proxy of a Pod that asked for one of a revision; empty:
// nothing.
func Injected(pod *unstructured.Unstructured, revision string) string {
	proxies := 0
	for _, list := range []string{"initContainers", "containers"} {
		all, _, _ := unstructured.NestedSlice(pod.Object, "spec", list)
		for _, c := range all {
			if c, ok := c.(map[string]any); ok && c["name"] == proxyContainer {
				proxies++
			}
		}
	}
	if proxies == 0 {
		return "a new Pod gets no proxy"
	}
	var status struct {
		Revision string `json:"revision"`
	}
	text := pod.GetAnnotations()[statusAnnotation]
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		return fmt.Sprintf("a new Pod gets a proxy, and metadata.annotations[%s] = %q; want what Lateen's injection "+
			"writes", statusAnnotation, text)
	}
	if status.Revision != revision {
		return fmt.Sprintf("a new Pod gets its proxy from revision %s", status.Revision)
	}
	return ""
}

// Injectors returns the webhooks of other control planes that would inject a Pod without labels in
// a namespace, of all MutatingWebhookConfigurations of a cluster. Its labels decide, since a
// webhook is asked by its selectors. Conditions in CEL are taken to hold.
func Injectors(configurations []unstructured.Unstructured, namespace *unstructured.Unstructured) []string {
	var found []string
	for i := range configurations {
		var c admissionregistrationv1.MutatingWebhookConfiguration
		converter := runtime.DefaultUnstructuredConverter
		if err := converter.FromUnstructured(configurations[i].Object, &c); err != nil {
			continue // the API server has checked it
		}
		if c.Labels["app.kubernetes.io/part-of"] == "lateen" {
			continue
		}
		for j := range c.Webhooks {
			if w := &c.Webhooks[j]; injects(w) && selects(w.NamespaceSelector, namespace.GetLabels()) &&
				selects(w.ObjectSelector, nil) {
				found = append(found, fmt.Sprintf("%s %s (webhook %s)", configurations[i].GetKind(), c.Name, w.Name))
			}
		}
	}
	return found
}

// injects reports whether a webhook is asked about new Pods at the path of Istio's injection.
// Linkerd's and others put proxies of their own into Pods, which is their users' business.
func injects(w *admissionregistrationv1.MutatingWebhook) bool {
	path := ""
	if s := w.ClientConfig.Service; s != nil && s.Path != nil {
		path = *s.Path
	} else if w.ClientConfig.URL != nil {
		if u, err := url.Parse(*w.ClientConfig.URL); err == nil {
			path = u.Path
		}
	}
	return strings.HasPrefix(path, "/inject") &&
		slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(r.Resources, "pods")
		})
}

// selects reports whether a selector matches labels. One that is not there matches all.
func selects(s *metav1.LabelSelector, set map[string]string) bool {
	if s == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && selector.Matches(labels.Set(set))
}
