package app

import (
	"hash/maphash"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
)

// meters turns the reports of the stages into metrics. The loop's goroutine calls its methods.
type meters struct {
	metrics *observe.Metrics
	// known has the hashes of the keys of all objects. A collision makes one event count as
	// another, once in 2^64.
	known map[uint64]struct{}
	seed  maphash.Seed
	last  map[string]compile.TranslateStats
}

func (m *meters) debounced(_ int, waited time.Duration) {
	m.metrics.Mesh.Debounce.Observe(waited.Seconds())
}

func (m *meters) event(c source.Change) {
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
	policies := len(d.AuthorizationPolicies) + len(d.PeerAuthentications)
	if n := len(d.VirtualServices) + len(d.DestinationRules) + len(d.Gateways) + len(d.Sidecars) + policies; n > 0 {
		m.metrics.Mesh.Triggers.WithLabelValues("config").Inc()
		m.metrics.Source.Updates.WithLabelValues("config").Add(float64(n))
	}
	if d.Mesh {
		m.metrics.Mesh.Triggers.WithLabelValues("global").Inc()
	}
}

func (m *meters) compileTime(took time.Duration) { m.metrics.Compile.Duration.Observe(took.Seconds()) }

func (m *meters) compilerStats(c *compile.Compiler) {
	s := c.Stats()
	m.metrics.Compile.Classes.Set(float64(s.Classes))
	for kind, now := range s.Translate {
		last, calls := m.last[kind], m.metrics.Compile.TranslateCalls
		calls.WithLabelValues(kind, "hit").Add(float64(now.Hits - last.Hits))
		calls.WithLabelValues(kind, "miss").Add(float64(now.Misses - now.Equal - last.Misses + last.Equal))
		calls.WithLabelValues(kind, "miss_equal").Add(float64(now.Equal - last.Equal))
	}
	m.last = s.Translate
}

func (m *meters) problems(appeared, mended []source.Problem) {
	for _, p := range appeared {
		m.metrics.Source.Problems.WithLabelValues(p.Severity.String()).Inc()
	}
	for _, p := range mended {
		m.metrics.Source.Problems.WithLabelValues(p.Severity.String()).Dec()
	}
}
