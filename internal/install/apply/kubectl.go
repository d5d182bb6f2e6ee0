package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The managers under which kubectl apply owns fields: on the client's side, and with --server-side.
// Its other commands own theirs under others, or in subresources.
const (
	kubectlApply       = "kubectl-client-side-apply"
	kubectlServerApply = "kubectl"
)

// lastApplied is the annotation in which kubectl apply keeps what it has applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// wasApplied reports whether kubectl apply has made an object as lateen manifest prints it: with
// the label that says whose it is.
func wasApplied(live *unstructured.Unstructured, revision string) bool {
	return live.GetLabels()[OwnerLabel] == revision && isLabelledBy(live, isKubectl)
}

// isKubectl reports whether fields are those of kubectl apply.
func isKubectl(m metav1.ManagedFieldsEntry) bool {
	switch m.Manager {
	case kubectlApply:
		return m.Subresource == "" && m.Operation == metav1.ManagedFieldsOperationUpdate
	case kubectlServerApply:
		return m.Subresource == "" && m.Operation == metav1.ManagedFieldsOperationApply
	}
	return false
}

// isWithKubectl reports whether a conflict, as the API server words it, is with kubectl apply.
func isWithKubectl(who string) bool {
	return who == `"`+kubectlServerApply+`"` || strings.HasPrefix(who, `"`+kubectlApply+`" using `)
}

func fieldsOf(m metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := &fieldpath.Set{}
	if m.FieldsV1 == nil || set.FromJSON(m.FieldsV1.GetRawReader()) != nil {
		return &fieldpath.Set{}
	}
	return set
}

// dropped returns the fields that kubectl apply has set, on the client's side, and that an object
// no longer has. They go when this program takes the object over, which a dry run does not show.
func dropped(live, asked *unstructured.Unstructured) (paths []string) {
	var applied map[string]any
	if json.Unmarshal([]byte(live.GetAnnotations()[lastApplied]), &applied) != nil {
		return nil
	}
	lacks(applied, asked.Object, "", &paths)
	slices.Sort(paths)
	return paths
}

// lacks adds the paths of fields that one object has and another does not. Items of lists are
// compared by their names.
func lacks(one, other any, at string, paths *[]string) {
	switch of := one.(type) {
	case map[string]any:
		others, _ := other.(map[string]any)
		for key, value := range of {
			path := strings.TrimPrefix(at+"."+key, ".")
			if against, there := others[key]; there {
				lacks(value, against, path, paths)
			} else if !isEmpty(value) {
				*paths = append(*paths, path)
			}
		}
	case []any:
		others, _ := other.([]any)
		for _, item := range of {
			name, named := nameOf(item)
			if !named {
				continue
			}
			path := fmt.Sprintf("%s[%s]", at, name)
			i := slices.IndexFunc(others, func(o any) bool { n, _ := nameOf(o); return n == name })
			if i < 0 {
				*paths = append(*paths, path)
				continue
			}
			lacks(item, others[i], path, paths)
		}
	}
}

// isEmpty reports whether a field says nothing: kubectl writes annotations that are empty.
func isEmpty(value any) bool {
	of, is := value.(map[string]any)
	for _, field := range of {
		if !isEmpty(field) {
			return false
		}
	}
	return value == nil || is
}

func nameOf(item any) (string, bool) {
	of, _ := item.(map[string]any)
	name, ok := of["name"].(string)
	return name, ok
}

// takeOver makes the fields this program's that kubectl apply has set on the client's side, so that
// those go which are no longer asked for.
func (c *Cluster) takeOver(ctx context.Context, live *unstructured.Unstructured) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(kubectlApply), manager)
	if err != nil || patch == nil {
		return err
	}
	client, err := c.on(live, live.GetNamespace())
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, live.GetName(), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: manager})
	return err
}
