package precheck

import (
	"encoding/json"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// WorkloadKind is a kind whose objects have the template of Pods.
type WorkloadKind struct{ APIVersion, Kind string }

// WorkloadKinds are those of Kubernetes.
func WorkloadKinds() []WorkloadKind {
	return []WorkloadKind{
		{"apps/v1", "DaemonSet"},
		{"apps/v1", "Deployment"},
		{"apps/v1", "ReplicaSet"},
		{"apps/v1", "StatefulSet"},
		{"batch/v1", "CronJob"},
		{"batch/v1", "Job"},
		{"v1", "Pod"},
		{"v1", "ReplicationController"},
	}
}

// Workload judges the Pods that a workload would make: whether the injection takes what they say,
// what it does otherwise, and whether their proxies would ask this control plane. namespace has the
// labels of its namespace. It reports false for a workload whose Pods nobody injects, neither
// Lateen nor Istio, and for one that another workload has made.
func (c *Checker) Workload(
	injector *inject.Injector, o *unstructured.Unstructured, namespace map[string]string,
) (Verdict, bool) {
	v := Verdict{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	path, ok := inject.TemplatePath(o.GetAPIVersion(), o.GetKind())
	if !ok || metav1.GetControllerOf(o) != nil {
		return v, false
	}
	template, found := o.Object, true
	if len(path) > 0 {
		template, found, _ = unstructured.NestedMap(o.Object, path...)
	}
	if !found || !asksForProxy(template, namespace) {
		return v, false
	}
	raw, err := json.Marshal(template)
	if err == nil {
		var result inject.Result
		result, err = injector.Inject(inject.Pod{JSON: raw, Namespace: o.GetNamespace()})
		if err == nil && !result.Inject {
			return v, false
		}
		c.addPod(result.JSON, o.GetNamespace(), o.GetName())
		if result.Warning != "" {
			v.Differences = append(v.Differences, Finding{Why: result.Warning})
		}
	}
	at := strings.Join(path, ".")
	v.Findings = append(injectionFindings(err, at), c.otherControlPlane(template, at)...)
	podLabels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	v.Warnings = append(v.Warnings, c.Unnamed(podLabels, strings.TrimPrefix(at+".metadata", "."))...)
	var typed corev1.PodTemplateSpec
	if untrusted.Pod().Typed(raw, &typed) == nil {
		key := source.Key{Kind: kinds.Kind(v.Kind), Namespace: v.Namespace, Name: v.Name}
		c.together.AddWorkload(key, at, &typed)
	}
	return v, true
}

// asksForProxy reports whether a webhook of Istio's or of Lateen's would be asked about the Pods of
// a template, of whichever revision.
func asksForProxy(template map[string]any, namespace map[string]string) bool {
	labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
	switch {
	case namespace[injectionLabel] == "disabled":
		return false
	case namespace[injectionLabel] != "" || namespace[kinds.RevisionLabel] != "":
		return true
	}
	return labels["sidecar.istio.io/inject"] == "true" || labels[kinds.RevisionLabel] != ""
}

// otherControlPlane is a setting in a template of Pods that says whom their proxies ask: it would
// keep them with the control plane that they have, unless that is the revision's.
func (c *Checker) otherControlPlane(template map[string]any, path string) []Finding {
	const name = inject.ProxyConfigAnnotation
	annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	var config struct {
		DiscoveryAddress string `json:"discoveryAddress"`
	}
	err := yaml.Unmarshal([]byte(annotations[name]), &config)
	if err != nil || config.DiscoveryAddress == "" || config.DiscoveryAddress == c.Discovery {
		return nil // what cannot be read is an error of the injection
	}
	return []Finding{{
		Field: strings.TrimPrefix(path+".metadata.annotations["+name+"]", "."),
		Value: "discoveryAddress: " + config.DiscoveryAddress,
		Why:   "the proxies would ask that control plane, whoever injects them; want none, for that of the revision",
	}}
}

// injectionFindings are the parts of an error of the injection, with fields below a path.
func injectionFindings(err error, path string) (all []Finding) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			all = append(all, injectionFindings(part, path)...)
		}
		return all
	}
	if path != "" {
		path += "."
	}
	if wrong := (*inject.AnnotationError)(nil); errors.As(err, &wrong) {
		return []Finding{{path + "metadata.annotations[" + wrong.Name + "]", wrong.Value, "want " + wrong.Want}}
	}
	return []Finding{{Why: err.Error()}}
}
