package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Action is what becomes of an object.
type Action string

// The actions.
const (
	Create Action = "created"
	Change Action = "changed"
	Same   Action = "unchanged"
	Keep   Action = "kept" // it is somebody else's, and serves as it is
	Remove Action = "removed"
)

// Step is what becomes of one object.
type Step struct {
	Object *unstructured.Unstructured
	Action Action
	// Live is the object in the cluster, and Result what it becomes; nil if there is none.
	Live, Result *unstructured.Unstructured
	// TakenOver tells that kubectl has applied the object as lateen manifest prints it: the fields
	// that it has set are taken over.
	TakenOver bool
	// Dropped are fields that kubectl apply alone has set, and that go when they are taken over.
	// Result still has them.
	Dropped []string
	// Kept are fields that somebody else has set, and that stay so. Conflicts are others, with who
	// has set them.
	Kept, Conflicts []string
}

// Options say how to apply.
type Options struct {
	Revision string
	// Force takes over fields that others have set.
	Force bool
	// Report makes conflicts a part of the steps, which cannot be applied then. Without it they are
	// errors.
	Report bool
}

// ForeignError says that objects are in the way which are not Lateen's.
type ForeignError struct{ Objects []string }

func (e *ForeignError) Error() string { return strings.Join(e.Objects, "\n") }

// Plan asks the API server what applying the objects would do. Nothing is stored. The error names
// every object that is not Lateen's, every field that somebody else has set, and everything that
// the API server refuses.
func (c *Cluster) Plan(ctx context.Context, objects []*unstructured.Unstructured, o Options) ([]Step, error) {
	var steps []Step
	var problems []error
	var others ForeignError
	missing := missing{namespaces: map[string]bool{}, kinds: map[schema.GroupKind]bool{}}
	for _, object := range objects {
		step, why, err := c.step(ctx, object, o, missing)
		switch {
		case err != nil:
			problems = append(problems, err)
		case len(step.Conflicts) > 0 && !o.Report:
			problems = append(problems, fmt.Errorf("%s: somebody else has set %s; want --force-conflicts to set "+
				"it anew, or the same value", Name(object), strings.Join(step.Conflicts, ", ")))
		case why != "":
			others.Objects = append(others.Objects, Name(object)+" is there already: "+why)
		default:
			steps = append(steps, step)
		}
	}
	injectors, err := c.otherInjectors(ctx, names(o.Revision, objects))
	problems = append(problems, err)
	others.Objects = append(others.Objects, injectors...)
	if len(others.Objects) > 0 {
		problems = append(problems, &others)
	}
	return steps, errors.Join(problems...)
}

// missing are the namespaces and kinds that earlier steps of a plan create.
type missing struct {
	namespaces map[string]bool
	kinds      map[schema.GroupKind]bool
}

func (m missing) note(created *unstructured.Unstructured) {
	switch created.GetKind() {
	case "Namespace":
		m.namespaces[created.GetName()] = true
	case "CustomResourceDefinition":
		group, _, _ := unstructured.NestedString(created.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(created.Object, "spec", "names", "kind")
		m.kinds[schema.GroupKind{Group: group, Kind: kind}] = true
	}
}

// step plans one object. missing collects what it creates that later ones need.
func (c *Cluster) step(ctx context.Context, object *unstructured.Unstructured, o Options, missing missing,
) (step Step, why string, err error) {
	object = object.DeepCopy()
	Own([]*unstructured.Unstructured{object}, o.Revision)
	live, err := c.get(ctx, object)
	if errors.Is(err, ErrNoKind) && missing.kinds[object.GroupVersionKind().GroupKind()] {
		return Step{Object: object, Action: Create, Result: object}, "", nil // nobody can check it yet
	}
	if err != nil {
		return Step{}, "", err
	}
	if live != nil && IsShared(object) && !isOurs(live) {
		return Step{Object: object, Action: Keep, Live: live, Result: live}, "", nil
	}
	if live != nil && !IsShared(object) {
		if why := foreign(live, o.Revision); why != "" {
			return Step{}, why, nil
		}
	}
	if live == nil {
		missing.note(object)
	}
	step = Step{Object: object, Live: live, Action: Create}
	namespace := object.GetNamespace()
	if missing.namespaces[namespace] {
		namespace = metav1.NamespaceDefault // what is refused there is refused anywhere
	}
	step.TakenOver = live != nil && wasApplied(live, o.Revision)
	if err := c.dryRun(ctx, &step, namespace, o.Force); err != nil {
		return Step{}, "", err
	}
	if live != nil {
		step.Action = Same
		if step.TakenOver && len(step.Conflicts) == 0 {
			step.Dropped = dropped(live, step.Object)
		}
		if len(step.Dropped) > 0 || !reflect.DeepEqual(Content(live), Content(step.Result)) {
			step.Action = Change
		}
	}
	return step, "", nil
}

// dryRun finds out what the step's object becomes. Fields that others may set, and have set, leave
// the object.
func (c *Cluster) dryRun(ctx context.Context, step *Step, namespace string, force bool) error {
	asked := step.Object.DeepCopy()
	if asked.GetNamespace() != "" {
		asked.SetNamespace(namespace)
	}
	result, err := c.send(ctx, asked, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, Force: force})
	if apierrors.IsConflict(err) && !force {
		var fields [][]string
		if fields, step.Conflicts = conflicts(err, step.TakenOver); len(step.Conflicts) > 0 {
			step.Result = step.Live
			return nil
		}
		for _, f := range fields {
			unstructured.RemoveNestedField(step.Object.Object, f...)
			step.Kept = append(step.Kept, strings.Join(f, "."))
		}
		asked = step.Object.DeepCopy()
		if asked.GetNamespace() != "" {
			asked.SetNamespace(namespace)
		}
		result, err = c.send(ctx, asked, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, Force: step.TakenOver})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", Name(step.Object), err)
	}
	if step.Object.GetNamespace() != "" {
		result.SetNamespace(step.Object.GetNamespace())
	}
	step.Result = result
	return nil
}

// yielding are fields that others may set: an operator who patches an autoscaler means it.
var yielding = map[string][]string{
	".spec.minReplicas": {"spec", "minReplicas"},
	".spec.maxReplicas": {"spec", "maxReplicas"},
	".spec.metrics":     {"spec", "metrics"},
	".spec.behavior":    {"spec", "behavior"},
	".spec.replicas":    {"spec", "replicas"},
}

// conflicts returns the fields in conflict: those that yield, and the others with who has set them.
// With takenOver, what kubectl has applied is none.
func conflicts(err error, takenOver bool) (fields [][]string, others []string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil, []string{err.Error()}
	}
	for _, cause := range status.Status().Details.Causes {
		who := strings.TrimPrefix(cause.Message, "conflict with ")
		if takenOver && isWithKubectl(who) {
			continue
		}
		if path, ok := yielding[cause.Field]; ok {
			fields = append(fields, path)
			continue
		}
		others = append(others, fmt.Sprintf("%s (%s)", strings.TrimPrefix(cause.Field, "."), who))
	}
	return fields, others
}

// Content is an object without what the API server keeps about it, and without what a Secret holds.
func Content(o *unstructured.Unstructured) map[string]any {
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	delete(o.Object, "status")
	if data, ok := o.Object["data"].(map[string]any); ok && o.GetKind() == "Secret" {
		for key := range data {
			data[key] = "***"
		}
	}
	return o.Object
}
