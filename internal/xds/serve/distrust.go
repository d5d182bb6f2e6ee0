package serve

import (
	"sync"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// names are resource names by type.
type names = [resource.NumTypes]map[string]struct{}

// distrustStore remembers, from one stream of a proxy to its next, the resources whose reported
// versions do not count, because the proxy may have refused what it reports. It holds at most
// maxDistrust proxies and forgets the oldest. Such a proxy may then keep a stale resource until its
// next change.
type distrustStore struct {
	mu    sync.Mutex
	known map[string]names // by node id
	order []string         // of known, oldest first
}

const maxDistrust = 4096

func (d *distrustStore) remember(nodeID string, n names) {
	some := false
	for _, of := range n {
		some = some || len(of) > 0
	}
	if !some {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(nodeID)
	if len(d.order) >= maxDistrust {
		d.drop(d.order[0])
	}
	if d.known == nil {
		d.known = map[string]names{}
	}
	d.known[nodeID] = n
	d.order = append(d.order, nodeID)
}

// take returns what is remembered of a proxy and forgets it: its new stream knows from then on.
func (d *distrustStore) take(nodeID string) names {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.known[nodeID]
	d.drop(nodeID)
	return n
}

func (d *distrustStore) drop(nodeID string) {
	if _, ok := d.known[nodeID]; !ok {
		return
	}
	delete(d.known, nodeID)
	for i, id := range d.order {
		if id == nodeID {
			d.order = append(d.order[:i], d.order[i+1:]...)
			return
		}
	}
}
