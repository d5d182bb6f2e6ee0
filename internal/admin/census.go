package admin

import (
	"net/url"
	"sync"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/mesh/census"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// countObjects answers /debug/census.
func (m *Mesh) countObjects(url.Values) (any, error) {
	w := m.Snapshot()
	if w == nil {
		return nil, errNotReady
	}
	return page.Census{Census: m.census.of(w), Events: m.Events(), Settings: m.Settings}, nil
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
