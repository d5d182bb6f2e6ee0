package inject

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/lateen-mesh/lateen/internal/cluster/unions"
)

// object is a JSON object.
type object = map[string]any

// merged returns a Pod with a strategic merge patch applied, which replaces members of unions.
// Neither is changed.
func merged(pod, patch object) (object, error) {
	schema, err := strategicpatch.NewPatchMetaFromStruct(corev1.Pod{})
	if err != nil {
		return nil, err
	}
	under, over := copied(pod).(object), copied(patch).(object)
	unions.ReplaceInPod(under, over)
	out, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(under, over, schema)
	if err != nil {
		return nil, fmt.Errorf("merging with the Pod: %w", err)
	}
	return out, nil
}

// copied returns JSON that shares nothing with the one given.
func copied(value any) any {
	switch v := value.(type) {
	case object:
		out := make(object, len(v))
		for key, entry := range v {
			out[key] = copied(entry)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, entry := range v {
			out[i] = copied(entry)
		}
		return out
	}
	return value
}

// under returns the object in a field, which is made if it is not there.
func under(o object, field string) object {
	of, ok := o[field].(object)
	if !ok {
		of = object{}
		o[field] = of
	}
	return of
}

// The lists of containers.
const (
	plain = "containers"
	first = "initContainers"
)

// containers returns the containers of a list.
func containers(pod object, list string) []object {
	spec, _ := pod["spec"].(object)
	all, _ := spec[list].([]any)
	var out []object
	for _, c := range all {
		if of, ok := c.(object); ok {
			out = append(out, of)
		}
	}
	return out
}

// setContainers replaces a list; an empty one goes.
func setContainers(pod object, list string, all []object) {
	if len(all) == 0 {
		delete(under(pod, "spec"), list)
		return
	}
	out := make([]any, len(all))
	for i, c := range all {
		out[i] = c
	}
	under(pod, "spec")[list] = out
}

// named returns the container or volume of that name, nil if there is none.
func named(all []object, name string) object {
	for _, o := range all {
		if o["name"] == name {
			return o
		}
	}
	return nil
}

// without returns the containers but those of that name.
func without(all []object, name string) []object {
	var out []object
	for _, o := range all {
		if o["name"] != name {
			out = append(out, o)
		}
	}
	return out
}

// proxyOf returns the proxy's container, nil if there is none.
func proxyOf(pod object) object {
	if c := named(containers(pod, plain), proxyName); c != nil {
		return c
	}
	return named(containers(pod, first), proxyName)
}

// setVariable sets an environment variable of a container.
func setVariable(container object, name, value string) {
	env, _ := container["env"].([]any)
	for _, e := range env {
		if of, ok := e.(object); ok && of["name"] == name {
			of["value"] = value
			delete(of, "valueFrom")
			return
		}
	}
	container["env"] = append(env, object{"name": name, "value": value})
}

// variable returns the value of an environment variable, empty if it has none.
func variable(container object, name string) string {
	env, _ := container["env"].([]any)
	for _, e := range env {
		if of, ok := e.(object); ok && of["name"] == name {
			text, _ := of["value"].(string)
			return text
		}
	}
	return ""
}
