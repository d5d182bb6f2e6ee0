package precheck

import (
	"regexp"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lateen-mesh/lateen/internal/app/config"
)

// Istiod is the Deployment of istiod, as Istio's charts label it.
const (
	istiodLabel     = "app"
	istiodName      = "istiod"
	istiodContainer = "discovery"
)

// istiodsFilter reports whether an EnvoyFilter has a name of those that istiod's installation has
// for its telemetry, as "stats-filter-1.13".
func istiodsFilter(name string) bool {
	return regexp.MustCompile(`^(tcp-)?(stats-filter|metadata-exchange)-1\.\d+(-.+)?$`).MatchString(name)
}

// Istiod judges the variables that a running istiod is set by. It reports false for a Deployment
// that is none, and for one whose settings are all as here.
func Istiod(o *unstructured.Unstructured) (Verdict, bool) {
	v := Verdict{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	if o.GetKind() != "Deployment" || o.GetLabels()[istiodLabel] != istiodName {
		return v, false
	}
	var d appsv1.Deployment
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d) != nil {
		return v, false
	}
	for _, container := range d.Spec.Template.Spec.Containers {
		if container.Name != istiodContainer {
			continue
		}
		set := map[string]string{}
		for _, e := range container.Env {
			set[e.Name] = e.Value
		}
		for _, u := range config.UnheededIn(func(name string) (string, bool) { s, ok := set[name]; return s, ok }) {
			v.Differences = append(v.Differences, Finding{Field: "env." + u.Name, Value: u.Value, Why: u.Why})
		}
	}
	return v, len(v.Differences) > 0
}
