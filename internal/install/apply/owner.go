package apply

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// shared are kinds of which objects are created where they are missing, and left alone otherwise,
// unless they are of this program: others use them too. So do all control planes the policies of
// the whole mesh, and what removes one of them must not open the mesh.
var shared = map[string]bool{
	"Namespace": true, "CustomResourceDefinition": true, "PeerAuthentication": true, "DestinationRule": true,
}

// IsShared reports whether an object may be somebody else's without being in the way. The root of
// the mesh is shared by all control planes, and none of its labels says whose it is.
func IsShared(o *unstructured.Unstructured) bool {
	return shared[o.GetKind()] || o.GetKind() == "Secret" && o.GetLabels()[partOf] == ""
}

// Own labels objects as those of a revision, but for what is shared.
func Own(objects []*unstructured.Unstructured, revision string) {
	for _, o := range objects {
		if IsShared(o) {
			continue
		}
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[OwnerLabel] = revision
		o.SetLabels(labels)
	}
}

// isOurs reports whether this program has applied an object.
func isOurs(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), isOwn)
}

// isOwn reports whether fields are those that this program has applied.
func isOwn(m metav1.ManagedFieldsEntry) bool {
	return m.Manager == manager && m.Operation == metav1.ManagedFieldsOperationApply
}

// isLabelledBy reports whether the label that says whose an object is stands among the fields of a
// writer.
func isLabelledBy(live *unstructured.Unstructured, by func(metav1.ManagedFieldsEntry) bool) bool {
	label := fieldpath.MakePathOrDie("metadata", "labels", OwnerLabel)
	return slices.ContainsFunc(live.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		return by(m) && fieldsOf(m).Has(label)
	})
}

// isOthersTag reports whether an object is a revision tag that was not installed with the revision.
// istioctl copies the labels of the revision's webhook to it, and takes over the one that says
// whose it is: a tag that was installed with one revision and moved to this one is nobody's.
func isOthersTag(live *unstructured.Unstructured, revision string) bool {
	return live.GetLabels()[kinds.TagLabel] != "" && !isLabelledBy(live, isOwn) && !wasApplied(live, revision)
}

// foreign says why an object in the cluster must not be touched; empty: it is Lateen's.
func foreign(live *unstructured.Unstructured, revision string) string {
	labels, release := live.GetLabels(), live.GetAnnotations()[kinds.HelmRelease]
	if release != "" && labels[partOf] == lateen {
		return fmt.Sprintf("it belongs to the Helm release %s; want helm upgrade %[1]s, or helm uninstall %[1]s first",
			release)
	}
	if owner := labels[OwnerLabel]; owner != "" && owner != revision {
		return fmt.Sprintf("it belongs to Lateen's revision %s", owner)
	}
	if labels[partOf] == lateen {
		return ""
	}
	whose := "it is not Lateen's"
	switch {
	case labels["operator.istio.io/component"] != "" || labels["istio"] == "pilot" || labels["app"] == "istiod" ||
		labels["app"] == "sidecar-injector":
		whose = "it is Istio's"
	case labels["maistra.io/owner"] != "":
		whose = "it is Maistra's"
	}
	if release != "" {
		whose += ", of the Helm release " + release
	}
	return whose
}

// names are those by which a revision injects, each with what it is.
func names(revision string, objects []*unstructured.Unstructured) map[string]string {
	all := map[string]string{}
	for _, o := range objects {
		if tag := o.GetLabels()[kinds.TagLabel]; tag != "" {
			all[tag] = "tag"
		}
	}
	all[revision] = "revision"
	return all
}

// otherInjectors returns what is in the way of a revision: webhooks that are not Lateen's and
// inject for one of its names too. A Pod would get two proxies.
func (c *Cluster) otherInjectors(ctx context.Context, names map[string]string) ([]string, error) {
	kind := &unstructured.Unstructured{}
	kind.SetAPIVersion("admissionregistration.k8s.io/v1")
	kind.SetKind("MutatingWebhookConfiguration")
	client, err := c.on(kind, "")
	if err != nil {
		return nil, err
	}
	all, err := client.List(ctx, metav1.ListOptions{LabelSelector: "app=sidecar-injector"})
	if err != nil {
		return nil, err
	}
	var found []string
	for i := range all.Items {
		o := &all.Items[i]
		if o.GetLabels()[partOf] == lateen {
			continue
		}
		for _, label := range []string{kinds.RevisionLabel, kinds.TagLabel} {
			if name := o.GetLabels()[label]; names[name] != "" {
				found = append(found, fmt.Sprintf("%s injects for the %s %s too", Name(o), names[name], name))
				break
			}
		}
	}
	return found, nil
}
