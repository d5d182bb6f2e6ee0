package gateways

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// The results for an object, as lateen_gateway_objects_total has them.
const (
	applied = "applied"
	removed = "removed"
	foreign = "foreign" // another manager has it
	failed  = "error"
)

var errForeign = errors.New("another manager has an object of this name, which stays as it is; want another name " +
	"for the Gateway, its istio.io/rev with the revision of that manager, or, to hand istiod's object over, " +
	"no label " + istiodLabel + " on it")

// errIstiods is errForeign of an object that istiod has made for the same Gateway.
var errIstiods = fmt.Errorf("istiod manages it: %w", errForeign)

// attempts is how often an object is looked at again that somebody else has changed in between.
const attempts = 3

// apply applies one object, or removes it if it is not wanted, unless another manager has it.
// result is "" if there was nothing to do.
func (c *Controller) apply(ctx context.Context, d *model.GatewayDeployment, o object) (result string, err error) {
	for range attempts {
		result, err = c.applyOnce(ctx, d, o)
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			break
		}
	}
	if err != nil && !errors.Is(err, errForeign) {
		return failed, err
	}
	return result, err
}

func (c *Controller) applyOnce(ctx context.Context, d *model.GatewayDeployment, o object) (string, error) {
	at := target{c: c, namespace: d.Gateway.Namespace, name: d.Name, object: o}
	present, err := at.read(ctx)
	switch {
	case err != nil:
		return failed, err
	case present == nil && o.body == nil:
		return "", nil
	case present == nil:
		return applied, at.create(ctx)
	case !isOwn(present, d.Gateway.UID):
		if o.body == nil {
			return "", nil
		}
		if belongs(present, d.Gateway.UID) {
			return foreign, errIstiods
		}
		return foreign, errForeign
	case o.body == nil:
		return removed, at.remove(ctx, present)
	}
	if present, err = at.claim(ctx, present); err != nil {
		return failed, err
	}
	return applied, at.apply(ctx, present)
}

// target is where an object stands in the API server.
type target struct {
	c               *Controller
	namespace, name string
	object
}

func (t target) path(name ...string) []string {
	root := []string{"apis", t.resource.Group}
	if t.resource.Group == "" {
		root = []string{"api"}
	}
	return append(append(root, t.resource.Version, "namespaces", t.namespace, t.resource.Resource), name...)
}

// do sends a request and returns the metadata of the object in the answer.
func (t target) do(ctx context.Context, r *rest.Request) (*metav1.ObjectMeta, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer := r.Do(ctx)
	raw, err := answer.Raw()
	if err != nil {
		return nil, answer.Error() // what the API server says, where it does
	}
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, err
	}
	return &o.Metadata, nil
}

// read returns the metadata of the object, nil if it does not exist.
func (t target) read(ctx context.Context) (*metav1.ObjectMeta, error) {
	present, err := t.do(ctx, t.c.API.Get().AbsPath(t.path(t.name)...))
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none
	}
	return present, err
}

// create fails if the object exists meanwhile, whoever has made it.
func (t target) create(ctx context.Context) error {
	body, err := json.Marshal(t.body)
	if err != nil {
		return err
	}
	_, err = t.do(ctx, t.c.API.Post().AbsPath(t.path()...).Param("fieldManager", fieldManager).
		SetHeader("Content-Type", "application/json").Body(body))
	return err
}

// claim makes Lateen the one who has applied what is there. It fails if the object has changed.
func (t target) claim(ctx context.Context, present *metav1.ObjectMeta) (*metav1.ObjectMeta, error) {
	managers, ok := claimed(present)
	if !ok {
		return present, nil
	}
	replace := func(field string, value any) map[string]any {
		return map[string]any{"op": "replace", "path": "/metadata/" + field, "value": value}
	}
	body, err := json.Marshal([]any{
		replace("managedFields", managers), replace("resourceVersion", present.ResourceVersion),
	})
	if err != nil {
		return nil, err
	}
	return t.do(ctx, t.c.API.Patch(types.JSONPatchType).AbsPath(t.path(t.name)...).
		Param("fieldManager", fieldManager).Body(body))
}

// apply applies to the very object that was read: it fails if that has changed, or another one has
// its name.
func (t target) apply(ctx context.Context, present *metav1.ObjectMeta) error {
	body, metadata := maps.Clone(t.body), maps.Clone(t.body["metadata"].(map[string]any))
	metadata["uid"], metadata["resourceVersion"] = present.UID, present.ResourceVersion
	body["metadata"] = metadata
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = t.do(ctx, t.c.API.Patch(types.ApplyPatchType).AbsPath(t.path(t.name)...).
		Param("fieldManager", fieldManager).Param("force", "true").Body(raw))
	return err
}

// remove deletes the very object that was read.
func (t target) remove(ctx context.Context, present *metav1.ObjectMeta) error {
	background := metav1.DeletePropagationBackground
	body, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions:     &metav1.Preconditions{UID: &present.UID, ResourceVersion: &present.ResourceVersion},
		PropagationPolicy: &background,
	})
	if err != nil {
		return err
	}
	_, err = t.do(ctx, t.c.API.Delete().AbsPath(t.path(t.name)...).
		SetHeader("Content-Type", "application/json").Body(body))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
