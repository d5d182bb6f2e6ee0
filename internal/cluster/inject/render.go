package inject

import (
	"fmt"
	"strings"

	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// templateData is the dot of a template. Its first fields are those that Istio's templates use.
type templateData struct {
	// TypeMeta and DeploymentMeta are those of the Pod's workload.
	TypeMeta       metav1.TypeMeta
	DeploymentMeta types.NamespacedName
	// ObjectMeta and Spec are those of the Pod.
	ObjectMeta metav1.ObjectMeta
	Spec       corev1.PodSpec
	// ProxyConfig is the one in force for the Pod.
	ProxyConfig                *mesh.ProxyConfig
	MeshConfig                 *mesh.MeshConfig
	Values                     map[string]any
	Revision                   string
	NativeSidecars             bool
	ProxyImage, ProxyInitImage string
	ProxyUID, ProxyGID         int64
	InboundTrafficPolicyMode   string
	CompliancePolicy           string
	// Proxy has what this package's templates need beyond them, ready to be written.
	Proxy proxyFacts
}

// proxyUser is the user and the group that a proxy runs as. Interception tells it by that.
const proxyUser = 1337

// data returns what templates of one Pod get.
func (i *Injector) data(r *request) (*templateData, error) {
	d := &templateData{
		TypeMeta:       metav1.TypeMeta{APIVersion: r.owner.APIVersion, Kind: r.owner.Kind},
		DeploymentMeta: types.NamespacedName{Namespace: r.namespace, Name: r.owner.Name},
		ObjectMeta:     r.pod.ObjectMeta, Spec: r.pod.Spec,
		ProxyConfig: r.proxy, MeshConfig: i.mesh.MeshConfig, Values: i.values.copy(),
		Revision: i.revision(), NativeSidecars: r.native,
		ProxyImage:               i.image(r, "global.proxy.image", r.proxy.GetImage().GetImageType()),
		ProxyInitImage:           i.image(r, "global.proxy_init.image", ""),
		ProxyUID:                 proxyUser,
		ProxyGID:                 proxyUser,
		InboundTrafficPolicyMode: strings.ToLower(i.mesh.GetInboundTrafficPolicy().GetMode().String()),
	}
	var err error
	d.Proxy, err = i.facts(r)
	return d, err
}

func (i *Injector) revision() string {
	if i.Revision == "" {
		return "default"
	}
	return i.Revision
}

// image returns an image: what the annotation or the value says if that has a registry, and else
// the name in the registry of the values, with their tag.
func (i *Injector) image(r *request, path, kind string) string {
	named := r.annotation(proxyImageName, i.values.text(path))
	if strings.Contains(named, "/") {
		return named
	}
	if kind == "" {
		kind = i.values.text("global.variant")
	}
	kind = r.annotation(proxyImageTypeName, kind)
	tag := i.values.text("global.tag")
	if kind != "" {
		for _, known := range []string{"distroless", "debug"} {
			tag = strings.TrimSuffix(tag, "-"+known)
		}
		if kind != "default" {
			tag += "-" + kind
		}
	}
	return i.values.text("global.hub") + "/" + named + ":" + tag
}

// render returns what one template makes of a Pod: a part of a Pod as a strategic merge patch.
func (i *Injector) render(name string, d *templateData) (object, error) {
	text, err := i.templates[name].Execute(d)
	if err != nil {
		return nil, err
	}
	var patch object
	if err := yaml.Unmarshal(text, &patch); err != nil {
		return nil, fmt.Errorf("template %s makes no YAML: %w", name, err)
	}
	return patch, nil
}
