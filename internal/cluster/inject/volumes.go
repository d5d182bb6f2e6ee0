package inject

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/cluster/unions"
)

// lastVolumes removes from a template's volumes those that a later one of the same name replaces.
// Templates add the volumes of an annotation behind their own.
func lastVolumes(patch object) {
	all := containers(patch, "volumes")
	last := map[any]int{}
	for n, v := range all {
		if unions.VolumeSource(v) != "" {
			last[v["name"]] = n
		}
	}
	var kept []object
	for n, v := range all {
		if at, ok := last[v["name"]]; !ok || at <= n {
			kept = append(kept, v)
		}
	}
	if len(kept) < len(all) {
		setContainers(patch, "volumes", kept)
	}
}

// withoutVolumes returns what a template makes without the volumes that the Pod itself has with
// another source: the Pod's own stand above the template's, as its containers' settings do.
func (r *request) withoutVolumes(overlay object) object {
	spec, _ := overlay["spec"].(object)
	all, _ := spec["volumes"].([]any)
	if len(all) == 0 {
		return overlay
	}
	own := map[any]object{}
	for _, v := range r.ownVolumes() {
		own[v["name"]] = v
	}
	kept := []any{}
	for _, volume := range all {
		of, _ := volume.(object)
		has := unions.VolumeSource(own[of["name"]])
		if sets := unions.VolumeSource(of); has == "" || sets == "" || has == sets {
			kept = append(kept, volume)
		}
	}
	out := copied(overlay).(object)
	under(out, "spec")["volumes"] = kept
	return out
}

// ownVolumes returns the volumes of the Pod that no injection has added.
func (r *request) ownVolumes() []object {
	var out []object
	for _, v := range containers(r.original, "volumes") {
		name, _ := v["name"].(string)
		if r.before == nil || !slices.Contains(r.before.Volumes, name) {
			out = append(out, v)
		}
	}
	return out
}
