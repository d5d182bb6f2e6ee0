package inject

import (
	"cmp"
	"fmt"
	"strings"

	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/source/untrusted"
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
		ProxyImage:               i.image(r, r.proxy.GetImage().GetImageType(), "global.proxy.image"),
		ProxyInitImage:           i.image(r, "", "global.proxy_init.image", "global.proxy.image"),
		ProxyUID:                 r.user,
		ProxyGID:                 r.group(),
		CompliancePolicy:         i.Compliance,
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

// The images of proxies: Lateen's own, and what a registry or a tag stands for alone. Who sets
// these two has them from Istio's files, where they name Istio's image.
const (
	ownImage      = "lateen-proxy"
	istioRegistry = "docker.io/istio"
	istioImage    = "proxyv2"
	istioTag      = "1.31.1"
)

// image returns an image: what the annotation or the first value that is set says if that has a
// registry or a tag, and else the name in the registry of the values, with their tag.
func (i *Injector) image(r *request, kind string, paths ...string) string {
	named := ""
	for _, path := range paths {
		named = cmp.Or(named, i.values.text(path))
	}
	named = r.annotation(proxyImageName, named)
	if strings.ContainsAny(named, "/:") {
		return named
	}
	hub, tag := i.values.text("global.hub"), i.values.text("global.tag")
	if named == "" && hub == "" && tag == "" {
		return ownImage
	}
	tag = cmp.Or(tag, istioTag)
	if kind == "" {
		kind = i.values.text("global.variant")
	}
	kind = r.annotation(proxyImageTypeName, kind)
	if kind != "" {
		for _, known := range []string{"distroless", "debug"} {
			tag = strings.TrimSuffix(tag, "-"+known)
		}
		if kind != "default" {
			tag += "-" + kind
		}
	}
	return cmp.Or(hub, istioRegistry) + "/" + cmp.Or(named, istioImage) + ":" + tag
}

// render returns what one template makes of a Pod: a part of a Pod as a strategic merge patch.
func (i *Injector) render(name string, d *templateData) (object, error) {
	text, err := i.templates[name].Execute(d)
	if err != nil {
		return nil, err
	}
	var patch object
	if err := untrusted.Pod().YAML(string(text), &patch); err != nil {
		return nil, fmt.Errorf("template %s makes no YAML: %w", name, err)
	}
	lastVolumes(patch)
	return patch, nil
}
