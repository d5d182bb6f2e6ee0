package installer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/install"
	"github.com/lateen-mesh/lateen/internal/install/apply"
	"github.com/lateen-mesh/lateen/internal/install/spec"
)

// recordKey is the key of the record's ConfigMap with what is installed.
const recordKey = "spec"

// record returns the ConfigMap that says what is installed: lateen upgrade starts from it.
func record(s *spec.Spec) (*unstructured.Unstructured, error) {
	text, err := yaml.Marshal(s)
	if err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"data": map[string]any{recordKey: string(text), "version": build.Version},
	}}
	o.SetAPIVersion("v1")
	o.SetKind("ConfigMap")
	o.SetName(s.Names().Record)
	o.SetNamespace(s.Root())
	o.SetLabels(map[string]string{"app.kubernetes.io/part-of": "lateen"})
	return o, nil
}

// installed returns what is installed of a revision. The error names the revisions that are there.
func installed(ctx context.Context, c *apply.Cluster, revision string) (*spec.Spec, error) {
	all, err := c.Revisions(ctx)
	if err != nil {
		return nil, err
	}
	namespace, there := all[revision]
	if !there {
		have := "none is installed"
		if len(all) > 0 {
			have = "installed: " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
		}
		if byOthers, err := appliedByOthers(ctx, c, revision); err != nil || byOthers != "" {
			return nil, cmp.Or(err, fmt.Errorf("the revision %s is there (%s), and lateen install has no record of "+
				"it: kubectl or another tool has applied it; lateen install --force-conflicts with the same flags "+
				"takes it over", revision, byOthers))
		}
		return nil, fmt.Errorf("the revision %s is not installed by lateen install; %s", revision, have)
	}
	s := &spec.Spec{Namespace: namespace, Values: map[string]any{"revision": revision}}
	client, _, err := c.GetClientFor("v1", "ConfigMap")
	if err != nil {
		return nil, err
	}
	return s, read(ctx, client, s)
}

// appliedByOthers names the Deployment of a revision that somebody has applied without lateen
// install, as with lateen manifest; empty: there is none. What belongs to a Helm release is Helm's.
func appliedByOthers(ctx context.Context, c *apply.Cluster, revision string) (string, error) {
	all, err := c.List(ctx, "apps/v1", "Deployment")
	if err != nil {
		return "", err
	}
	for i := range all.Items {
		o := &all.Items[i]
		isReplica := labels.SelectorFromSet(install.ReplicaLabels(revision)).Matches(labels.Set(o.GetLabels()))
		if isReplica && o.GetLabels()[apply.OwnerLabel] == "" &&
			o.GetAnnotations()[kinds.HelmRelease] == "" {
			return apply.Name(o), nil
		}
	}
	return "", nil
}

// read fills a spec from its record.
func read(ctx context.Context, client dynamic.NamespaceableResourceInterface, s *spec.Spec) error {
	name := s.Names().Record
	o, err := client.Namespace(s.Root()).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("the record of what is installed: %w", err)
	}
	text, _, err := unstructured.NestedString(o.Object, "data", recordKey)
	if err == nil {
		*s = spec.Spec{}
		err = yaml.UnmarshalStrict([]byte(text), s)
	}
	if err != nil {
		return fmt.Errorf("the record of what is installed, ConfigMap %s/%s: %w", s.Root(), name, err)
	}
	return nil
}
