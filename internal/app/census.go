package app

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"sync"

	"github.com/lateen-mesh/lateen/internal/mesh/census"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/observe/debug"
)

// CensusPage is /debug/census: what the advisor reads of a control plane beside its metrics and its
// proxies.
type CensusPage struct {
	census.Census
	// Events are the changes of objects since the control plane started, by namespace.
	Events   map[string]uint64 `json:"events"`
	Settings CensusSettings    `json:"settings"`
}

// CensusSettings are the settings in force that can be advised to change. Times are seconds.
type CensusSettings struct {
	DebounceAfter float64 `json:"debounceAfterSeconds"`
	DebounceEarly float64 `json:"debounceEarlySeconds"`
	DebounceMax   float64 `json:"debounceMaxSeconds"`
	AllClusters   bool    `json:"allClusters,omitempty"`
	// Selects is set if the source applies the discovery selectors.
	Selects bool `json:"selects,omitempty"`
	// InCluster is set if it runs in Kubernetes.
	InCluster bool `json:"inCluster,omitempty"`
}

// censusPage answers /debug/census.
func (p *Pipeline) censusPage(url.Values) (any, error) {
	w := p.snapshot.Load()
	if w == nil {
		return nil, debug.ErrNotReady
	}
	c := p.o.Config
	return CensusPage{Census: p.census.of(w), Events: p.meters.events.all(), Settings: CensusSettings{
		DebounceAfter: c.DebounceAfter.Seconds(), DebounceEarly: c.DebounceEarly.Seconds(),
		DebounceMax: c.DebounceMax.Seconds(), AllClusters: c.AllClusters,
		Selects: p.o.Selected, InCluster: p.o.Cluster != nil,
	}}, nil
}

// censusCache keeps the census of the last snapshot that was asked for, so that however many ask, a
// snapshot is counted once. Those who ask at the same time wait for one count.
type censusCache struct {
	mu         sync.Mutex
	counted    bool
	generation uint64
	census     census.Census
	// counts is how often a snapshot was counted.
	counts int
}

func (c *censusCache) of(w *state.Snapshot) census.Census {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.counted || c.generation < w.Generation {
		c.counted, c.generation, c.census = true, w.Generation, census.Of(w)
		c.counts++
	}
	return c.census
}

// ReadCensus counts what a source has at first. Of the options it uses those that Analyze uses.
func ReadCensus(ctx context.Context, o Options) (census.Census, error) {
	w, _, err := readOnce(ctx, o)
	if err == nil && w == nil {
		err = errors.New("nothing was read")
	}
	if err != nil {
		return census.Census{}, err
	}
	return census.Of(w), nil
}

// mostNamespaces bounds how many namespaces are told apart; events of others count together.
const mostNamespaces = 10_000

// otherNamespaces is the name of those that are not told apart. No namespace has it.
const otherNamespaces = "(others)"

// namespaceEvents counts changes by namespace. The loop's goroutine adds, pages read.
type namespaceEvents struct {
	mu     sync.Mutex
	counts map[string]uint64
}

func (e *namespaceEvents) add(namespace string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts = map[string]uint64{}
	}
	if _, known := e.counts[namespace]; !known && len(e.counts) >= mostNamespaces {
		namespace = otherNamespaces
	}
	e.counts[namespace]++
}

func (e *namespaceEvents) all() map[string]uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		return map[string]uint64{}
	}
	return maps.Clone(e.counts)
}
