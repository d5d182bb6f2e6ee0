package convert

import (
	"cmp"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
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
	// conversions is not changed once built.
	conversions map[kinds.Kind]conversion
	// readers keeps those that are not in use. Conversions are called through a table, so escape
	// analysis would allocate a reader for each.
	readers sync.Pool
}

// New makes a Converter.
func New(o Options) *Converter {
	if o.Defaults.Domain == "" && o.Defaults.RootNamespace == "" {
		o.Defaults = model.DefaultMesh()
	}
	return &Converter{
		defaults: o.Defaults, configMap: cmp.Or(o.ConfigMap, meshConfigMap), selected: o.Selected, unready: o.Unready, pools: newPools(),
		conversions: conversions(), readers: sync.Pool{New: func() any { return &reader{} }},
	}
}

// MeshKey names the ConfigMap with the mesh configuration.
func (c *Converter) MeshKey() source.Key {
	return source.Key{Kind: kinds.ConfigMap, Namespace: c.defaults.RootNamespace, Name: c.configMap}
}

// Convert says what a change means in a mesh that is configured so. A deletion gives nothing.
func (c *Converter) Convert(change source.Change, mesh model.MeshConfig) Result {
	if change.Object == nil {
		return Result{}
	}
	r := c.readers.Get().(*reader)
	defer c.putBack(r)
	*r = reader{
		report:      report{object: change.Key, origin: change.Origin},
		meta:        metaOf(change),
		mesh:        mesh,
		converter:   c,
		observed:    change.ObservedAt,
		unready:     c.unready,
		annotations: change.Object.GetAnnotations(),
		pools:       c.pools,
	}
	objects := r.convert(change.Object)
	return Result{Objects: objects, Problems: r.problems, Ignored: r.ignored, Ending: r.ending}
}

// putBack keeps a reader for the next conversion, and nothing that it holds.
func (c *Converter) putBack(r *reader) {
	*r = reader{}
	c.readers.Put(r)
}

// reader reads one object. It lives for one conversion and collects its problems.
type reader struct {
	report
	meta model.Meta
	mesh model.MeshConfig

	converter *Converter
	observed  time.Time // when the change reached this process
	// unready keeps endpoints that are not ready.
	unready     bool
	annotations map[string]string
	pools       *pools
	// meshWide is set while a Sidecar is read that is for all namespaces: "." is then the namespace of each proxy.
	meshWide bool
	ending   bool // of the Result
	ignored  bool // of the Result
}

func metaOf(c source.Change) model.Meta {
	m := model.Meta{Kind: c.Key.Kind, Namespace: c.Key.Namespace, Name: c.Key.Name, UID: string(c.Object.GetUID())}
	if t := c.Object.GetCreationTimestamp(); !t.IsZero() {
		m.Created = t.Unix()
	}
	return m
}
