package precheck

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// tagLabel is what istioctl and Istio's chart put on the webhooks of a revision tag: its name.
const tagLabel = "istio.io/tag"

// Tags returns the revision tags that the webhooks of a cluster are for, each with its revision.
// The tag "default" is not among them, since a label istio-injection speaks to it as to the default
// revision, nor is one with the name of the revision that is to be installed, whose webhook is in
// the way of the installation.
func Tags(webhooks []unstructured.Unstructured, revision string) map[string]string {
	all := map[string]string{}
	for i := range webhooks {
		labels := webhooks[i].GetLabels()
		if tag := labels[tagLabel]; tag != "" && tag != "default" && tag != revision {
			all[tag] = labels[kinds.RevisionLabel]
		}
	}
	return all
}

// TagWebhooks returns the verdicts on the webhooks of revision tags.
func TagWebhooks(webhooks []unstructured.Unstructured) []Verdict {
	var all []Verdict
	for i := range webhooks {
		o := &webhooks[i]
		if tag := o.GetLabels()[tagLabel]; tag != "" && tag != "default" {
			all = append(all, Verdict{Kind: o.GetKind(), Name: o.GetName(), Findings: []Finding{{
				Field: "metadata.labels[" + tagLabel + "]", Value: tag,
				Why: "Lateen has no revision tags: with istiod's webhook this tag ends; want istio.io/rev=REVISION " +
					"on what names it",
			}}})
		}
	}
	return all
}

// Tagged judges labels that name a revision tag: nobody answers to it once istiod is gone.
func (c *Checker) Tagged(labels map[string]string, path string) []Finding {
	name := labels[kinds.RevisionLabel]
	revision, isTag := c.Tags[name]
	if !isTag || labels[injectionLabel] != "" {
		return nil
	}
	return []Finding{{
		Field: path + ".labels[" + kinds.RevisionLabel + "]", Value: name,
		Why: fmt.Sprintf("this is a revision tag (of the revision %s), and Lateen has none: it would answer to its "+
			"revision alone; want %s=REVISION", revision, kinds.RevisionLabel),
	}}
}
