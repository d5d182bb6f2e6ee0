package kube

import (
	"cmp"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestTagsAreThoseOfTheObjects: after any steps, the names that stand for the revision are those
// that the objects say, and Run is told of each change of them.
func TestTagsAreThoseOfTheObjects(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		own := rapid.SampledFrom([]string{"", "default", "a"}).Draw(r, "own")
		s := &Source{tags: newTags(own)}
		told := false
		s.tags.changed = func() { told = true }
		s.reads = s.tags.revisions()
		said := map[string]map[string]tag{webhookResource: {}, serviceResource: {}}
		resources, names := rapid.SampledFrom([]string{webhookResource, serviceResource}),
			rapid.SampledFrom([]string{"x", "y", "z"})
		revisions := rapid.SampledFrom([]string{"", "default", "a", "b"})
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			resource := resources.Draw(r, "resource")
			before := s.tags.revisions()
			one := tag{names.Draw(r, "tag"), revisions.Draw(r, "revision")}
			object := names.Draw(r, "object")
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0:
				said[resource] = map[string]tag{object: one}
				s.tags.replace(resource, map[string]tag{object: one})
			case 1:
				delete(said[resource], object)
				s.tags.set(resource, object, tag{})
			default:
				said[resource][object] = one
				s.tags.set(resource, object, one)
			}
			want := revisionsOf(own, said)
			require.Equal(r, want, s.tags.revisions())
			changed := !equalRevisions(before, want)
			require.Equal(r, changed, told)
			told = false
			if rapid.Bool().Draw(r, "taken") {
				s.takeTags()
				require.Equal(r, want, s.reads)
				require.False(r, s.takeTags())
			}
			of, _ := s.RevisionOf()
			for _, name := range []string{"x", "y", "z", "none"} {
				require.True(r, mayStandFor(of(name), name, said), "%s for %s", of(name), name)
			}
		}
	})
}

func revisionsOf(own string, said map[string]map[string]tag) revisions {
	all := revisions{own: true}
	for _, objects := range said {
		for _, one := range objects {
			if one.revision == cmp.Or(own, "default") {
				all[one.name] = true
			}
		}
	}
	return all
}

func equalRevisions(a, b revisions) bool {
	for name := range a {
		if !b[name] {
			return false
		}
	}
	return len(a) == len(b)
}

// mayStandFor reports whether objects say that a name stands for a revision: webhooks if any does,
// else Services, and if none does, the name is a revision.
func mayStandFor(revision, name string, said map[string]map[string]tag) bool {
	for _, resource := range []string{webhookResource, serviceResource} {
		found := false
		for _, one := range said[resource] {
			found = found || one.name == name && one.revision != ""
			if one.name == name && cmp.Or(one.revision, name) == revision {
				return true
			}
		}
		if found {
			return false
		}
	}
	return revision == name
}
