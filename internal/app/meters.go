package app

import (
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// meters turns the reports of the stages into metrics. The loop's goroutine calls its methods,
// but those that scrapes call.
type meters struct {
	metrics *observe.Metrics
	// known has the hashes of the keys of all objects. A collision makes one event count as
	// another, once in 2^64.
	known map[uint64]struct{}
	seed  maphash.Seed
	last  map[string]compile.TranslateStats
	// pending is how many endpoints had no Pod in the last snapshot.
	pending int
	events  namespaceEvents
	// patching is held while the metrics of patches are set: scrapes may overlap.
	patching sync.Mutex
}

func (m *meters) debounced(b schedule.BatchStats) {
	m.metrics.Mesh.Debounce.Observe(b.Waited.Seconds())
	m.metrics.Mesh.Apply.Observe(b.Took.Seconds())
}

func (m *meters) event(c source.Change) {
	if c.Key.Namespace != "" {
		m.events.add(c.Key.Namespace)
	}
	event, hash := "add", maphash.Comparable(m.seed, c.Key)
	_, known := m.known[hash]
	switch {
	case c.Object == nil:
		event = "delete"
		delete(m.known, hash)
	case known:
		event = "update"
	default:
		m.known[hash] = struct{}{}
	}
	kind := kinds.Of(c.Key.Kind)
	if kind.RegistryType != "" {
		m.metrics.Source.RegistryEvents.WithLabelValues(kind.RegistryType, event).Inc()
	}
	if kind.ConfigEvents {
		m.metrics.Source.ConfigEvents.WithLabelValues(string(kind.Kind), event).Inc()
	}
}

func (m *meters) snapshot(w *state.Snapshot, d *state.Delta) {
	counts := w.Counts()
	m.metrics.Mesh.Generation.Set(float64(w.Generation))
	m.metrics.Mesh.Services.Set(float64(counts.Services))
	m.metrics.Mesh.ServicesWithoutPods.Set(float64(counts.WithoutEndpoints))
	m.metrics.Mesh.VirtualServices.Set(float64(counts.VirtualServices))
	m.metrics.Mesh.Subsets.Set(float64(counts.Subsets))
	m.metrics.Mesh.EndpointsPendingPod.Set(float64(counts.PendingEndpoints))
	m.metrics.Mesh.EndpointsWithoutPod.Set(float64(counts.PendingEndpoints))
	m.metrics.Mesh.EndpointsPodNotFound.Add(float64(max(0, counts.PendingEndpoints-m.pending)))
	m.pending = counts.PendingEndpoints
	m.metrics.Mesh.EndpointsNotReady.Set(float64(counts.UnreadyEndpoints))
	if len(d.Endpoints) > 0 {
		m.metrics.Mesh.Triggers.WithLabelValues("endpoint").Inc()
		m.metrics.Source.Updates.WithLabelValues("eds").Add(float64(len(d.Endpoints)))
	}
	for _, s := range d.Services {
		if s.New == nil {
			m.metrics.Source.Updates.WithLabelValues("svcdelete").Inc()
		} else {
			m.metrics.Source.Updates.WithLabelValues("svc").Inc()
		}
	}
	if len(d.Services) > 0 {
		m.metrics.Mesh.Triggers.WithLabelValues("service").Inc()
	}
	if n := configChanges(d); n > 0 {
		m.metrics.Mesh.Triggers.WithLabelValues("config").Inc()
		m.metrics.Source.Updates.WithLabelValues("config").Add(float64(n))
	}
	if len(d.Credentials) > 0 {
		m.metrics.Mesh.Triggers.WithLabelValues("secret").Inc()
	}
	if d.Mesh {
		m.metrics.Mesh.Triggers.WithLabelValues("global").Inc()
	}
}

// configChanges counts the changed objects of Istio's kinds. ServiceEntries count as services.
func configChanges(d *state.Delta) (n int) {
	for _, k := range d.Changed {
		if kinds.Of(k.Kind).ConfigEvents && k.Kind != kinds.ServiceEntry {
			n++
		}
	}
	return n
}

func (m *meters) compileTime(took time.Duration) { m.metrics.Compile.Duration.Observe(took.Seconds()) }

func (m *meters) compilerStats(c *compile.Compiler) {
	s := c.Stats()
	for kind, now := range s.Translate {
		last, calls := m.last[kind], m.metrics.Compile.TranslateCalls
		calls.WithLabelValues(kind, "hit").Add(float64(now.Hits - last.Hits))
		calls.WithLabelValues(kind, "miss").Add(float64(now.Misses - now.Equal - last.Misses + last.Equal))
		calls.WithLabelValues(kind, "miss_equal").Add(float64(now.Equal - last.Equal))
	}
	m.last = s.Translate
}

// classes reads how many classes there are, and how large their configuration is. Scrapes call it,
// as proxies make classes between generations.
func (m *meters) classes(c *compile.Compiler) {
	classes, sizes := c.Sizes()
	m.metrics.Compile.Classes.Set(float64(classes))
	for t, size := range sizes {
		name := resource.Type(t).String()
		m.metrics.Compile.ConfigLargest.WithLabelValues(name).Set(float64(size.Largest))
		m.metrics.Compile.ConfigSum.WithLabelValues(name).Set(float64(size.Sum))
	}
}

// patches reads what patches match. Scrapes call it, as classes do.
func (m *meters) patches(matches []compile.PatchMatches) {
	m.patching.Lock()
	defer m.patching.Unlock()
	m.metrics.Compile.PatchProxies.Reset()
	m.metrics.Compile.PatchResources.Reset()
	for _, p := range matches {
		labels := []string{string(p.Owner.Kind), p.Owner.Namespace, p.Owner.Name, strconv.Itoa(p.Index)}
		m.metrics.Compile.PatchProxies.WithLabelValues(labels...).Set(float64(p.Proxies))
		m.metrics.Compile.PatchResources.WithLabelValues(labels...).Set(float64(p.Resources))
	}
}

func (m *meters) problems(appeared, mended []source.Problem) {
	for _, p := range appeared {
		m.count(p, 1)
		if p.Severity == source.Error && p.Object.Kind == kinds.Gateway {
			m.metrics.Source.Rejected.WithLabelValues("gateway", p.Object.Namespace+"/"+p.Object.Name).Inc()
		}
	}
	for _, p := range mended {
		m.count(p, -1)
	}
}

// count adds n to the metrics of a problem.
func (m *meters) count(p source.Problem, n float64) {
	m.metrics.Source.Problems.WithLabelValues(p.Severity.String()).Add(n)
	switch p.Code {
	case source.DuplicateDomain:
		m.metrics.Mesh.DuplicateDomains.Add(n)
	case source.DuplicateHost:
		m.metrics.Compile.DuplicateClusters.Add(n)
	case source.OutboundConflict:
		m.metrics.Compile.OutboundConflicts.Add(n)
	case source.InboundConflict:
		m.metrics.Compile.InboundConflicts.Add(n)
	}
}
