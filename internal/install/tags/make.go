package tags

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/install/render"
)

// Wish is what a tag is to be.
type Wish struct {
	Name, Revision string
	// Root is the root namespace, of the Service.
	Root string
	// Overwrite is set if the tag may be another revision's now.
	Overwrite bool
	// AllNamespaces is set if the tag "default" injects Pods of namespaces without a label too.
	AllNamespaces bool
}

// Check returns why a tag must not be set.
func (s *State) Check(w Wish) error {
	revisions := s.Revisions()
	if of(w.Revision, s.Webhooks) == nil {
		want := "want lateen install --revision " + w.Revision + " first"
		if len(revisions) > 0 {
			want = "want one of " + strings.Join(revisions, ", ")
		}
		return fmt.Errorf("there is no revision %s with a webhook for Pods; %s", w.Revision, want)
	}
	if root := s.RootOf(w.Revision); root != "" && root != w.Root {
		return fmt.Errorf("the revision %s is in the namespace %s; want --namespace %[2]s", w.Revision, root)
	}
	if w.Name == w.Revision {
		return fmt.Errorf("%s is the name of the revision itself; want another one for a tag", w.Name)
	}
	if other := of(w.Name, s.Webhooks); other != nil {
		return fmt.Errorf("%s is the name of a revision (MutatingWebhookConfiguration %s): new Pods would get two "+
			"proxies; want another name, or lateen uninstall --revision %[1]s first", w.Name, other.GetName())
	}
	if helm := s.releaseOf(w.Name); helm != "" {
		return fmt.Errorf("the tag %s belongs to the Helm release %s, which removes it with itself; want the value "+
			"revisionTags of its chart, or first helm.sh/resource-policy=keep on its objects and helm upgrade without "+
			"the tag (docs/guides/revisions.md)", w.Name, helm)
	}
	now, exists := s.Get(w.Name)
	if exists && now.Revision != w.Revision && !w.Overwrite {
		return fmt.Errorf("the tag %s is that of revision %s; want --overwrite to move it to %s", w.Name, now.Revision,
			w.Revision)
	}
	return nil
}

// releaseOf returns the Helm release that removes objects of a tag with itself; empty if none does.
func (s *State) releaseOf(name string) string {
	for _, o := range s.ObjectsOf(name) {
		notes := o.GetAnnotations()
		if release := notes[kinds.HelmRelease]; release != "" && notes["helm.sh/resource-policy"] != "keep" {
			return release
		}
	}
	return ""
}

// Objects are those of a tag.
type Objects struct{ Webhook, Service *unstructured.Unstructured }

// Make returns the objects of a tag. The webhook asks at the address of the revision's own, by the
// same roots, and the Service leads to the same Pods.
func (s *State) Make(w Wish) (Objects, error) {
	injector := of(w.Revision, s.Webhooks)
	if injector == nil {
		return Objects{}, fmt.Errorf("there is no revision %s with a webhook for Pods", w.Revision)
	}
	rendered, err := render.Release{
		Chart: render.Lateen, Name: "lateen", Namespace: w.Root, Values: map[string]any{
			"revision": w.Revision, "revisionTags": []any{w.Name},
			"pilot":                  map[string]any{"image": "none"}, // no tag has one
			"sidecarInjectorWebhook": map[string]any{"enableNamespacesByDefault": w.AllNamespaces},
		},
	}.Objects()
	if err != nil {
		return Objects{}, err
	}
	var made Objects
	for _, o := range rendered {
		switch {
		case o.GetLabels()[kinds.TagLabel] == "":
		case o.GetKind() == "Service":
			made.Service = o
		default:
			made.Webhook = o
		}
	}
	if made.Service == nil || made.Webhook == nil {
		return Objects{}, errors.New("the chart makes no objects for a tag")
	}
	own := webhooksOf(injector)
	if len(own) == 0 {
		return Objects{}, fmt.Errorf("MutatingWebhookConfiguration %s has no webhook", injector.GetName())
	}
	for _, hook := range webhooksOf(made.Webhook) {
		for _, field := range []string{"clientConfig", "reinvocationPolicy", "failurePolicy", "timeoutSeconds"} {
			if value, set := own[0][field]; set {
				hook[field] = value
			}
		}
	}
	if service := of(w.Revision, s.Services); service != nil {
		for _, field := range []string{"selector", "ports"} {
			if value, set, _ := unstructured.NestedFieldCopy(service.Object, "spec", field); set {
				_ = unstructured.SetNestedField(made.Service.Object, withoutNodePorts(value), "spec", field)
			}
		}
	}
	return made, nil
}

// clientConfig returns how the first webhook of a configuration is asked.
func clientConfig(o *unstructured.Unstructured) (any, bool) {
	for _, hook := range webhooksOf(o) {
		if config, set := hook["clientConfig"]; set {
			return config, true
		}
	}
	return nil, false
}

func webhooksOf(o *unstructured.Unstructured) (all []map[string]any) {
	list, _ := o.Object["webhooks"].([]any)
	for _, item := range list {
		if hook, ok := item.(map[string]any); ok {
			all = append(all, hook)
		}
	}
	return all
}

// withoutNodePorts returns ports without those of nodes, which no two Services share.
func withoutNodePorts(value any) any {
	ports, _ := value.([]any)
	for _, p := range ports {
		if port, ok := p.(map[string]any); ok {
			delete(port, "nodePort")
		}
	}
	return value
}
