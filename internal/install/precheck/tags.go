package precheck

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// NamesOf returns the names by which a revision is known: its own, and its tags, as the webhooks of
// a cluster say them.
func NamesOf(revision string, webhooks []unstructured.Unstructured) []string {
	names := []string{revision}
	for i := range webhooks {
		labels := webhooks[i].GetLabels()
		if tag := labels[kinds.TagLabel]; tag != "" && labels[kinds.RevisionLabel] == revision {
			names = append(names, tag)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Known returns the names of all revisions and tags that webhooks are for, and that of the revision
// that is to be installed; nil without webhooks, since nobody then knows.
func Known(revision string, webhooks []unstructured.Unstructured) map[string]bool {
	if len(webhooks) == 0 {
		return nil
	}
	all := map[string]bool{revision: true}
	for i := range webhooks {
		for _, label := range []string{kinds.RevisionLabel, kinds.TagLabel} {
			if name := webhooks[i].GetLabels()[label]; name != "" {
				all[name] = true
			}
		}
	}
	return all
}

// TagWebhooks returns the verdicts on the webhooks of revision tags: which are another revision's
// for now, and which has the name of the revision that is to be installed, so that Pods would get
// proxies of both.
func TagWebhooks(webhooks []unstructured.Unstructured, revision string) []Verdict {
	var all []Verdict
	for i := range webhooks {
		o := &webhooks[i]
		tag, of := o.GetLabels()[kinds.TagLabel], o.GetLabels()[kinds.RevisionLabel]
		v := Verdict{Kind: o.GetKind(), Name: o.GetName()}
		switch {
		case tag == "" || of == revision:
			continue
		case tag == revision:
			v.Findings = []Finding{{
				Field: "metadata.labels[" + kinds.TagLabel + "]", Value: tag,
				Why: "this tag has the name of the revision that is to be installed; want another --revision",
			}}
		default:
			v.Differences = []Finding{{
				Field: "metadata.labels[" + kinds.RevisionLabel + "]", Value: of,
				Why: "the tag is that of another revision until lateen tag set " + tag + " --revision " + revision +
					" --overwrite",
			}}
		}
		all = append(all, v)
	}
	return all
}

// Unnamed warns of a label that names neither a revision nor a tag: nobody reads the object, and
// nobody injects the Pods.
func (c *Checker) Unnamed(labels map[string]string, path string) []Finding {
	name := labels[kinds.RevisionLabel]
	if c.Known == nil || name == "" || c.Known[name] || labels[injectionLabel] != "" {
		return nil
	}
	return []Finding{{
		Field: path + ".labels[" + kinds.RevisionLabel + "]", Value: name,
		Why: "is neither a revision nor a tag of this cluster, so nobody reads or injects this; want a name that " +
			"lateen tag list has",
	}}
}
