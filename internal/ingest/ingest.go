package ingest

import (
	"cmp"
	"fmt"

	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingk8s "k8s.io/api/networking/v1"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Object is what a conversion gives. What tells the objects of one source object apart is the host of a Service, and of those
// that stand for an Ingress the kind and the name; all other kinds give one at most.
type Object = model.Object

// Options are what a Converter is made with.
type Options struct {
	// Defaults is the configuration of a mesh whose ConfigMap says nothing; its RootNamespace is where that ConfigMap
	// is looked for. The zero value stands for model.DefaultMesh.
	Defaults model.MeshConfig
	// Unready keeps endpoints that are not ready, as unhealthy or draining ones (PILOT_SEND_UNHEALTHY_ENDPOINTS).
	Unready bool
	// ConfigMap is the name of that ConfigMap; empty stands for "istio".
	ConfigMap string
	// Selected tells that the source leaves out what the discovery selectors do; else they are reported as without effect.
	Selected bool
}

// Annotations are those that conversions read: a source may leave out all others.
func Annotations() []string {
	return []string{
		exportAnnotation, distributionAnnotation, topologyAnnotation, hintsAnnotation,
		appAddressAnnotation, outboundAddressAnnotation, classAnnotation,
	}
}

// Result is what one object means.
type Result struct {
	Objects  []Object // none when the object is deleted, refused or not used
	Problems []source.Problem
	// Ignored tells that objects like this one mean nothing to Lateen.
	Ignored bool
	// Ending tells that a Pod is being deleted, which makes no difference to the objects.
	Ending bool
}

// Converter converts objects. It is safe for concurrent use; it holds no state but the pools that make equal routes and
// policies one pointer.
type Converter struct {
	defaults  model.MeshConfig
	configMap string
	selected  bool
	unready   bool
	pools     *pools
}

// New makes a Converter.
func New(o Options) *Converter {
	if o.Defaults.Domain == "" && o.Defaults.RootNamespace == "" {
		o.Defaults = model.DefaultMesh()
	}
	return &Converter{
		defaults: o.Defaults, configMap: cmp.Or(o.ConfigMap, meshConfigMap), selected: o.Selected, unready: o.Unready, pools: newPools(),
	}
}

// MeshKey names the ConfigMap with the mesh configuration.
func (c *Converter) MeshKey() source.Key {
	return source.Key{Kind: source.ConfigMap, Namespace: c.defaults.RootNamespace, Name: c.configMap}
}

// Convert says what a change means in a mesh that is configured so. A deletion gives nothing.
func (c *Converter) Convert(change source.Change, mesh model.MeshConfig) Result {
	if change.Object == nil {
		return Result{}
	}
	r := &reader{
		report:  report{object: change.Key, origin: change.Origin},
		meta:    metaOf(change),
		mesh:    mesh,
		unready: c.unready, annotations: change.Object.GetAnnotations(),
		pools: c.pools,
	}
	objects, used := r.read(change, c)
	return Result{Objects: objects, Problems: r.problems, Ignored: !used, Ending: r.ending}
}

// reader reads one object. It lives for one conversion and collects its problems.
type reader struct {
	report
	meta model.Meta
	mesh model.MeshConfig
	// unready keeps endpoints that are not ready.
	unready     bool
	annotations map[string]string
	pools       *pools
	// meshWide is set while a Sidecar is read that is for all namespaces: "." is then the namespace of each proxy.
	meshWide bool
	ending   bool // of the Result
}

func metaOf(c source.Change) model.Meta {
	m := model.Meta{Kind: c.Key.Kind, Namespace: c.Key.Namespace, Name: c.Key.Name, UID: string(c.Object.GetUID())}
	if t := c.Object.GetCreationTimestamp(); !t.IsZero() {
		m.Created = t.Unix()
	}
	return m
}

// read tells with its second result whether objects like this one are used at all.
func (r *reader) read(change source.Change, c *Converter) ([]Object, bool) {
	switch o := change.Object.(type) {
	case *corev1.Namespace:
		return r.namespace(o), true
	case *corev1.Node:
		return r.node(o), true
	case *corev1.Service:
		return r.service(o), true
	case *discoveryv1.EndpointSlice:
		return r.endpointSlice(o)
	case *corev1.Pod:
		return r.pod(o), true
	case *corev1.ConfigMap:
		if r.object != c.MeshKey() {
			return nil, false
		}
		return r.meshConfig(o, c), true
	case *networkingk8s.Ingress:
		return r.kubernetesIngress(o)
	case *networkingk8s.IngressClass:
		return r.kubernetesIngressClass(o)
	case *corev1.Secret:
		return r.secret(o, change.ObservedAt)
	case *networkingv1.Gateway:
		return r.gateway(&o.Spec), true
	case *networkingv1.VirtualService:
		return r.virtualService(&o.Spec), true
	case *networkingv1.DestinationRule:
		return r.destinationRule(&o.Spec), true
	case *networkingv1.ServiceEntry:
		return r.serviceEntry(&o.Spec), true
	case *networkingv1.Sidecar:
		return r.sidecar(&o.Spec), true
	case *securityv1.AuthorizationPolicy:
		return r.authorizationPolicy(&o.Spec), true
	case *securityv1.PeerAuthentication:
		return r.peerAuthentication(&o.Spec), true
	case *appsv1.Deployment, *corev1.ServiceAccount:
		return nil, false
	}
	r.fail("", fmt.Sprintf("%T", change.Object), "objects of this type cannot be read", "a kind that Lateen reads")
	return nil, true
}
