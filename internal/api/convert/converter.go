package convert

import (
	"cmp"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Object is the output of a conversion. A Service becomes one object for each host. An Ingress
// becomes several, told apart by kind and name. All other kinds become one at most.
type Object = model.Object

// Options configure a Converter.
type Options struct {
	// Defaults is the configuration of a mesh whose ConfigMap sets nothing. Its RootNamespace is
	// that of the ConfigMap. The zero value stands for model.DefaultMesh.
	Defaults model.MeshConfig
	// Unready keeps endpoints that are not ready, as unhealthy or draining ones
	// (PILOT_SEND_UNHEALTHY_ENDPOINTS).
	Unready bool
	// ConfigMap is the name of that ConfigMap; empty stands for "istio".
	ConfigMap string
	// Selected is set if the source applies the discovery selectors. Else they are reported as
	// without effect.
	Selected bool
	// ExternalCA is set if certificates are signed elsewhere. Else caCertificates are reported as
	// without effect.
	ExternalCA bool
	// Injects is set if Pods get their proxies of this control plane, which pass on what
	// defaultConfig says of how they start. Else that is reported as without effect.
	Injects bool
	// Workers is set if proxies are started with defaultConfig.concurrency, as by lateen up.
	Workers bool
	// Cluster is set if each proxy has a network namespace of its own, so that loopback is another
	// machine for each. In lateen up, and where a control plane that is no Pod serves proxies
	// beside it, all are on one machine.
	Cluster bool
}

// Result is the output for one object.
type Result struct {
	Objects  []Object // none when the object is deleted, refused or not used
	Problems []source.Problem
	// Ignored is set if objects like this one have no meaning for Lateen.
	Ignored bool
	// Terminating is set if a Pod is being deleted, which makes no difference to the objects.
	Terminating bool
}

// Converter converts objects. It is safe for concurrent use. Its only state is the pools that give
// equal routes and policies one pointer.
type Converter struct {
	defaults  model.MeshConfig
	configMap string
	selected  bool
	unready   bool
	external  bool // Options.ExternalCA
	injects   bool // Options.Injects
	workers   bool // Options.Workers
	cluster   bool // Options.Cluster
	pools     *pools
	// conversions is not changed once built.
	conversions map[kinds.Kind]conversion
	// readers keeps readers that are not in use. Conversions are called through a table, so escape
	// analysis would allocate a reader for each.
	readers sync.Pool
}

// New returns a Converter.
func New(o Options) *Converter {
	if o.Defaults.Domain == "" && o.Defaults.RootNamespace == "" {
		o.Defaults = model.DefaultMesh()
	}
	return &Converter{
		defaults: o.Defaults, configMap: cmp.Or(
			o.ConfigMap, meshConfigMap,
		), selected: o.Selected, unready: o.Unready, external: o.ExternalCA, injects: o.Injects,
		workers:     o.Workers,
		cluster:     o.Cluster,
		pools:       newPools(),
		conversions: conversions(),
		readers:     sync.Pool{New: func() any { return &reader{} }},
	}
}

// MeshKey names the ConfigMap with the mesh configuration.
func (c *Converter) MeshKey() source.Key {
	return source.Key{Kind: kinds.ConfigMap, Namespace: c.defaults.RootNamespace, Name: c.configMap}
}

// Convert returns the meaning of a change under a mesh configuration. A deletion gives nothing.
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
	return Result{Objects: objects, Problems: r.problems, Ignored: r.ignored, Terminating: r.terminating}
}

// putBack clears a reader and keeps it for the next conversion.
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
	// meshWide is set while a Sidecar for all namespaces is read: "." is then the namespace of each
	// proxy.
	meshWide bool
	// delegated is set while a VirtualService without hosts is read.
	delegated   bool
	terminating bool // of the Result
	ignored     bool // of the Result
}

func metaOf(c source.Change) model.Meta {
	m := model.Meta{Kind: c.Key.Kind, Namespace: c.Key.Namespace, Name: c.Key.Name, UID: string(c.Object.GetUID())}
	if t := c.Object.GetCreationTimestamp(); !t.IsZero() {
		m.Created = t.Unix()
	}
	return m
}
