package inject

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
)

// injectedStatus is the annotation that an injected Pod has: what was added. Its fields are
// Istio's.
type injectedStatus struct {
	InitContainers   []string `json:"initContainers"`
	Containers       []string `json:"containers"`
	Volumes          []string `json:"volumes"`
	ImagePullSecrets []string `json:"imagePullSecrets"`
	Revision         string   `json:"revision"`
}

// statusOf returns what was added to a Pod before, nil if nothing was.
func statusOf(pod *corev1.Pod) (*injectedStatus, error) {
	text, ok := pod.Annotations[statusName]
	if !ok {
		return nil, nil //nolint:nilnil // it was not injected
	}
	s := &injectedStatus{}
	if err := untrusted.Annotation().JSON([]byte(text), s); err != nil {
		return nil, fmt.Errorf("metadata.annotations[%s] = %q; want what injection has written, or no such annotation",
			statusName, excerpt(text))
	}
	return s, nil
}

// status returns the annotation for what the templates add.
func (i *Injector) status(r *request, added object) (string, error) {
	own := r.ownVolumes()
	s := injectedStatus{
		InitContainers: namesIn(added, first), Containers: namesIn(added, plain),
		Volumes: slices.DeleteFunc(namesIn(added, "volumes"), func(name string) bool {
			return named(own, name) != nil
		}),
		ImagePullSecrets: namesIn(added, "imagePullSecrets"), Revision: i.revision(),
	}
	raw, err := json.Marshal(s)
	return string(raw), err
}

// namesIn returns the names in a list of the spec.
func namesIn(pod object, list string) []string {
	var all []string
	for _, o := range containers(pod, list) {
		if name, ok := o["name"].(string); ok {
			all = append(all, name)
		}
	}
	return all
}

// overrides are the settings that a Pod had for containers that a template adds.
type overrides struct {
	Containers     []corev1.Container `json:"containers,omitempty"`
	InitContainers []corev1.Container `json:"initContainers,omitempty"`
}

// strip returns the Pod without what was added before, and with its own settings for it. Templates
// see this one, so that a second injection makes what the first did.
func (s *injectedStatus) strip(pod *corev1.Pod) (*corev1.Pod, error) {
	if s == nil {
		return pod, nil
	}
	out := pod.DeepCopy()
	out.Spec.Containers = slices.DeleteFunc(out.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(s.Containers, c.Name)
	})
	out.Spec.InitContainers = slices.DeleteFunc(out.Spec.InitContainers, func(c corev1.Container) bool {
		return slices.Contains(s.InitContainers, c.Name)
	})
	if text, ok := out.Annotations[overridesName]; ok {
		var own overrides
		if err := untrusted.Annotation().Typed([]byte(text), &own); err != nil {
			return nil, fmt.Errorf("metadata.annotations[%s] = %q; want what injection has written: %w",
				overridesName, excerpt(text), err)
		}
		out.Spec.Containers = append(out.Spec.Containers, own.Containers...)
		out.Spec.InitContainers = append(out.Spec.InitContainers, own.InitContainers...)
	}
	return out, nil
}

// proxyIn returns the settings that a Pod has for its proxy, nil if it has none.
func proxyIn(pod *corev1.Pod) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		if at := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == proxyName }); at >= 0 {
			return &list[at]
		}
	}
	return nil
}

// withOverrides applies the settings that the Pod has for containers which a template adds, and
// notes them, so that they are known when it is injected again.
func (r *request) withOverrides(pod, added object) (object, error) {
	noted := object{}
	for _, list := range []string{plain, first} {
		var own []any
		for _, c := range containers(added, list) {
			name, _ := c["name"].(string)
			if settings := r.settingsFor(name, list); settings != nil {
				own = append(own, settings)
			}
		}
		if len(own) == 0 {
			continue
		}
		noted[list] = own
		var err error
		if pod, err = merged(pod, object{"spec": object{list: own}}); err != nil {
			return nil, err
		}
	}
	if r.before != nil {
		return pod, nil
	}
	return pod, r.note(pod, noted)
}

// note records in a Pod the settings that it had before its first injection. Another's record is
// dropped: a second injection would take it for what the first has written.
func (r *request) note(pod, settings object) error {
	notes := under(under(pod, "metadata"), "annotations")
	if text, ok := notes[overridesName].(string); ok {
		r.warn("metadata.annotations[%s] = %q is not used: injection alone writes it; set the container %s in spec",
			overridesName, excerpt(text), proxyName)
		delete(notes, overridesName)
	}
	if len(settings) == 0 {
		return nil
	}
	raw, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	notes[overridesName] = string(raw)
	return nil
}

// settingsFor returns what the Pod itself says of a container, nil if it says nothing. The image
// "auto" stands for the template's.
func (r *request) settingsFor(name, list string) object {
	from := r.original
	if r.before != nil {
		from = object{"spec": r.recorded()}
	}
	own := named(containers(from, list), name)
	if own == nil && name == proxyName {
		own = named(containers(from, otherList(list)), name)
	}
	if own == nil {
		return nil
	}
	own = asIn(copied(own).(object), list)
	if (r.apart || r.mode() == transparent) && name == proxyName {
		withoutUser(own)
	}
	if own["image"] == "auto" {
		delete(own, "image")
	}
	return own
}

// recorded returns the settings that the first injection has noted.
func (r *request) recorded() object {
	var all object
	if text, ok := r.pod.Annotations[overridesName]; ok {
		_ = json.Unmarshal([]byte(text), &all) // strip has read it
	}
	return all
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
