package kube

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// revisions are values of the label istio.io/rev: a revision and its tags. They do not change.
type revisions map[string]bool

// tag is what one object says: that a name stands for a revision. Both come from labels.
type tag struct{ name, revision string }

// tags holds the revision tags of the cluster, as its objects say them: webhooks and, in the root
// namespace, Services. Both of one tag may name different revisions while it moves, and the tag is
// then one of both. So a tag that moves is at no moment nobody's.
type tags struct {
	revision string // the control plane's own
	// changed is called when another set of names stands for the revision. It must not block.
	changed func()

	mu sync.Mutex
	// said is what each object says, by its resource and name.
	said   map[string]map[string]tag
	reads  revisions
	taken  bool          // Run knows reads
	owners chan struct{} // closed and replaced when anything changes
}

func newTags(revision string) *tags {
	t := &tags{
		revision: revision, changed: func() {}, said: map[string]map[string]tag{}, taken: true,
		owners: make(chan struct{}),
	}
	t.reads = t.now()
	return t
}

// The resources whose objects are tags.
const (
	webhookResource = "mutatingwebhookconfigurations"
	serviceResource = "services"
)

// tagWebhooks returns the webhooks that are tags.
func tagWebhooks() *resource {
	return &resource{
		GroupVersionResource: schema.GroupVersionResource{
			Group: admissionregistrationv1.GroupName, Version: "v1", Resource: webhookResource,
		},
		versions: []string{"v1"}, clusterScoped: true, labels: kinds.TagLabel, tags: true,
	}
}

// tagServices returns the Services that are tags.
func tagServices(rootNamespace string) *resource {
	return &resource{
		GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: serviceResource},
		versions:             []string{"v1"}, namespace: rootNamespace, labels: kinds.TagLabel, tags: true,
	}
}

// tagOf returns what an object says.
func tagOf(o metav1.Object) tag {
	return tag{o.GetLabels()[kinds.TagLabel], o.GetLabels()[kinds.RevisionLabel]}
}

// handleTag takes one object that is a tag. Those of a list count together, once it is complete.
func (w *watcher) handleTag(deleted bool, o metav1.Object, p *listing) {
	said := tagOf(o)
	if deleted {
		said = tag{}
	}
	switch {
	case p == nil:
		w.source.tags.set(w.resource.Resource, o.GetName(), said)
	case deleted:
		delete(p.tags, o.GetName())
	default:
		p.tags[o.GetName()] = said
	}
}

// set takes what one object says; an empty tag is nothing.
func (t *tags) set(resource, object string, said tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := maps.Clone(t.said[resource])
	if all == nil {
		all = map[string]tag{}
	}
	if all[object] = said; said.name == "" {
		delete(all, object)
	}
	t.put(resource, all)
}

// replace takes what all objects of a resource say.
func (t *tags) replace(resource string, all map[string]tag) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(resource, all)
}

// put is called under the lock.
func (t *tags) put(resource string, all map[string]tag) {
	if maps.Equal(t.said[resource], all) {
		return
	}
	t.said[resource] = all
	close(t.owners)
	t.owners = make(chan struct{})
	if reads := t.now(); !maps.Equal(reads, t.reads) {
		t.reads, t.taken = reads, false
		t.changed()
	}
}

// now returns the names that stand for the revision. The caller holds the lock.
func (t *tags) now() revisions {
	all := revisions{t.revision: true}
	for _, said := range t.said {
		for _, one := range said {
			if one.revision == cmp.Or(t.revision, defaultRevision) {
				all[one.name] = true
			}
		}
	}
	return all
}

// defaultRevision is the name of the revision without one.
const defaultRevision = "default"

// revisions returns the names that stand for the revision.
func (t *tags) revisions() revisions {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.reads
}

// takeTags takes the names that stand for the revision, and reports whether they are other ones
// than at the last call.
func (s *Source) takeTags() bool {
	s.tags.mu.Lock()
	defer s.tags.mu.Unlock()
	if s.tags.taken {
		return false
	}
	s.tags.taken, s.reads = true, s.tags.reads
	return true
}

// RevisionOf returns the revision that a value of the label istio.io/rev stands for: that of the
// tag, or the value itself. The webhook of a tag comes before its Service, because it says which
// proxies new Pods get. The channel is closed when a tag changes.
func (s *Source) RevisionOf() (revisionOf func(string) string, changed <-chan struct{}) {
	s.tags.mu.Lock()
	defer s.tags.mu.Unlock()
	of := map[string]string{}
	for _, resource := range []string{webhookResource, serviceResource} {
		said := s.tags.said[resource]
		for _, object := range slices.Sorted(maps.Keys(said)) {
			name := said[object].name
			of[name] = cmp.Or(of[name], said[object].revision)
		}
	}
	return func(name string) string { return cmp.Or(of[name], name) }, s.tags.owners
}
