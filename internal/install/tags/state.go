package tags

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// State is the objects of a cluster that decide about tags.
type State struct {
	// Webhooks are all MutatingWebhookConfigurations, and Services those of the root namespaces.
	Webhooks, Services []unstructured.Unstructured
	Namespaces         []unstructured.Unstructured
}

// Tag is a name of a revision.
type Tag struct {
	Name string `json:"tag"`
	// Revision injects new Pods, and reads the objects that name the tag.
	Revision string `json:"revision"`
	// AlsoReadBy are revisions that read these objects too.
	AlsoReadBy []string `json:"alsoReadBy,omitempty"`
	// Namespaces are those that name the tag.
	Namespaces []string `json:"namespaces"`
}

// All returns the tags, by their names. Who has two webhooks has that of the first name; who has
// none, the revision of the Service.
func (s *State) All() []Tag {
	revisions := map[string][]string{}
	for _, objects := range [][]unstructured.Unstructured{s.Webhooks, s.Services} {
		for _, o := range sorted(objects) {
			labels := o.GetLabels()
			name, revision := labels[kinds.TagLabel], labels[kinds.RevisionLabel]
			if name != "" && revision != "" && !slices.Contains(revisions[name], revision) {
				revisions[name] = append(revisions[name], revision)
			}
		}
	}
	all := []Tag{} // a list in JSON too
	for _, name := range slices.Sorted(maps.Keys(revisions)) {
		of := revisions[name]
		all = append(all, Tag{Name: name, Revision: of[0], AlsoReadBy: of[1:], Namespaces: s.NamespacesOf(name)})
	}
	return all
}

// Get returns a tag, and whether it exists.
func (s *State) Get(name string) (Tag, bool) {
	for _, t := range s.All() {
		if t.Name == name {
			return t, true
		}
	}
	return Tag{}, false
}

// ObjectsOf returns the objects of a tag: the webhooks first.
func (s *State) ObjectsOf(name string) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, objects := range [][]unstructured.Unstructured{s.Webhooks, s.Services} {
		for _, o := range sorted(objects) {
			if o.GetLabels()[kinds.TagLabel] == name {
				all = append(all, o)
			}
		}
	}
	return all
}

// NamespacesOf returns the namespaces that name a tag or a revision. The label istio-injection
// counts alone, and speaks to "default".
func (s *State) NamespacesOf(name string) []string {
	all := []string{}
	for i := range s.Namespaces {
		labels := s.Namespaces[i].GetLabels()
		injection := labels["istio-injection"]
		if injection == "" && labels[kinds.RevisionLabel] == name || injection == "enabled" && name == defaultName {
			all = append(all, s.Namespaces[i].GetName())
		}
	}
	slices.Sort(all)
	return all
}

// defaultName is the name that the label istio-injection=enabled stands for.
const defaultName = "default"

// Revisions returns the names of the revisions that inject.
func (s *State) Revisions() []string {
	var all []string
	for i := range s.Webhooks {
		if isRevision(&s.Webhooks[i]) {
			all = append(all, s.Webhooks[i].GetLabels()[kinds.RevisionLabel])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Roots returns the root namespaces of the revisions.
func (s *State) Roots() []string {
	var all []string
	for i := range s.Webhooks {
		if isRevision(&s.Webhooks[i]) {
			all = append(all, rootOf(&s.Webhooks[i]))
		}
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(namespace string) bool { return namespace == "" })
}

// RootOf returns the root namespace of a revision; empty if it is not known.
func (s *State) RootOf(revision string) string {
	injector := of(revision, s.Webhooks)
	if injector == nil {
		return ""
	}
	return rootOf(injector)
}

// rootOf returns the namespace of the Service that webhooks ask; empty if they ask none.
func rootOf(o *unstructured.Unstructured) string {
	config, _ := clientConfig(o)
	client, _ := config.(map[string]any)
	namespace, _, _ := unstructured.NestedString(client, "service", "namespace")
	return namespace
}

// isRevision reports whether a webhook or a Service is that of a revision, and of no tag.
func isRevision(o *unstructured.Unstructured) bool {
	labels := o.GetLabels()
	app := labels["app"]
	return labels[kinds.RevisionLabel] != "" && labels[kinds.TagLabel] == "" &&
		(app == "sidecar-injector" || app == "istiod")
}

// of returns the object of a revision among others; nil if there is none.
func of(revision string, objects []unstructured.Unstructured) *unstructured.Unstructured {
	for _, o := range sorted(objects) {
		if isRevision(o) && o.GetLabels()[kinds.RevisionLabel] == revision {
			return o
		}
	}
	return nil
}

// sorted returns objects in the order of their names.
func sorted(objects []unstructured.Unstructured) []*unstructured.Unstructured {
	all := make([]*unstructured.Unstructured, 0, len(objects))
	for i := range objects {
		all = append(all, &objects[i])
	}
	slices.SortFunc(all, func(a, b *unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}
