package gateways

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/unions"
	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// defaultsLabel marks ConfigMaps of the root namespace with parameters of all Gateways of the class
// that it names. It is Istio's.
const defaultsLabel = "gateway.istio.io/defaults-for-class"

// overlay is a ConfigMap with changes to objects: a strategic merge patch by the key of each.
type overlay struct {
	from string
	data map[string]string
}

// parametersError is a mistake in what users configured. Nothing is applied then.
type parametersError struct{ text string }

func (e *parametersError) Error() string { return e.text }

func invalidf(format string, args ...any) error {
	return &parametersError{text: fmt.Sprintf(format, args...)}
}

// parameters returns the overlays for a Gateway in the order in which they are merged: those for
// its class, that of its class, its own.
func (c *Controller) parameters(ctx context.Context, d *model.GatewayDeployment) ([]overlay, error) {
	if d.Mistake != "" {
		return nil, &parametersError{text: d.Mistake}
	}
	all, err := c.defaults(ctx, d.Class)
	if err != nil {
		return nil, fmt.Errorf("the ConfigMaps with %s=%s in namespace %s: %w", defaultsLabel, d.Class,
			c.RootNamespace, err)
	}
	named := []model.ObjectName{d.ClassParameters, {Namespace: d.Gateway.Namespace, Name: d.Parameters}}
	for i, of := range []string{"the GatewayClass's spec.parametersRef", "spec.infrastructure.parametersRef"} {
		if named[i].Name == "" {
			continue
		}
		o, err := c.overlay(ctx, named[i])
		switch {
		case apierrors.IsNotFound(err):
			return nil, invalidf("%s: there is no ConfigMap %s in namespace %s", of, named[i].Name, named[i].Namespace)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", of, err)
		}
		all = append(all, o)
	}
	return all, nil
}

// defaults returns the overlays of all Gateways of a class, by name.
func (c *Controller) defaults(ctx context.Context, class string) ([]overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer := c.API.Get().AbsPath("api", "v1", "namespaces", c.RootNamespace, "configmaps").
		Param("labelSelector", defaultsLabel+"="+class).Do(ctx)
	var list corev1.ConfigMapList
	if err := decode(answer, &list); err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	var all []overlay
	for _, o := range list.Items {
		all = append(all, overlay{from: o.Namespace + "/" + o.Name, data: o.Data})
	}
	return all, nil
}

func (c *Controller) overlay(ctx context.Context, at model.ObjectName) (overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer := c.API.Get().AbsPath("api", "v1", "namespaces", at.Namespace, "configmaps", at.Name).Do(ctx)
	var o corev1.ConfigMap
	err := decode(answer, &o)
	return overlay{from: at.Namespace + "/" + at.Name, data: o.Data}, err
}

// decode reads the JSON of an answer.
func decode(answer interface {
	Raw() ([]byte, error)
	Error() error
}, into any,
) error {
	raw, err := answer.Raw()
	if err != nil {
		return answer.Error()
	}
	return json.Unmarshal(raw, into)
}

// merged returns an object with what the overlays say under its key, as a strategic merge patch of
// Kubernetes. What identifies the object, and its owner, stay.
func (p patchable) merged(body map[string]any, overlays []overlay) (out map[string]any, err error) {
	defer func() { // a library judges what users wrote
		if problem := recover(); problem != nil {
			err = invalidf("parameters for %s: %v", p.key, problem)
		}
	}()
	before, err := plain(body)
	if err != nil {
		return nil, err
	}
	if out, err = plain(body); err != nil { // merging changes it
		return nil, err
	}
	for _, o := range overlays {
		patch, err := p.patch(o)
		if err != nil {
			return nil, invalidf("ConfigMap %s, key %s: %v", o.from, p.key, err)
		}
		if len(patch) == 0 {
			continue
		}
		unions.ReplaceInWorkload(out, patch)
		if out, err = strategicpatch.StrategicMergeMapPatch(out, patch, p.schema); err != nil {
			return nil, invalidf("ConfigMap %s, key %s: %v", o.from, p.key, err)
		}
	}
	if err := p.checkResult(before, out); err != nil {
		return nil, err
	}
	return out, identify(out, body)
}

// patch returns what an overlay says, if parameters may.
func (p patchable) patch(o overlay) (patch map[string]any, err error) {
	if err := untrusted.Overlay().YAML(o.data[p.key], &patch); err != nil {
		return nil, fmt.Errorf("%w; want YAML of an object", err)
	}
	if refused := p.allowed.check("", patch); refused != nil {
		return nil, refused
	}
	return patch, nil
}

// checkResult returns an error if the overlays make no object of the kind, or another one than is
// deployed for a Gateway.
func (p patchable) checkResult(before, after map[string]any) error {
	if err := p.checkPinned(before, after); err != nil {
		return err
	}
	raw, err := json.Marshal(after)
	if err != nil {
		return err
	}
	if err := untrusted.Object().Typed(raw, reflect.New(reflect.TypeOf(p.schema)).Interface()); err != nil {
		return invalidf("the parameters make no %s: %v", p.kind, err)
	}
	return nil
}

// identify gives an object the identity of another one.
func identify(out, as map[string]any) error {
	as, err := plain(as)
	if err != nil {
		return err
	}
	out["apiVersion"], out["kind"] = as["apiVersion"], as["kind"]
	metadata, ok := out["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		out["metadata"] = metadata
	}
	for _, field := range []string{"name", "namespace", "ownerReferences"} {
		metadata[field] = as["metadata"].(map[string]any)[field]
	}
	for _, field := range []string{"uid", "resourceVersion", "managedFields", "finalizers"} {
		delete(metadata, field)
	}
	delete(out, "status")
	return nil
}

// plain returns an object as JSON has it.
func plain(body map[string]any) (out map[string]any, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal(raw, &out)
	return out, err
}
