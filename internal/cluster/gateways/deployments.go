package gateways

import (
	"maps"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Deployments holds what each Gateway is to be deployed as. It grows with the number of Gateways,
// and is safe for concurrent use.
type Deployments struct {
	mu     sync.Mutex
	wanted map[source.Key]*model.GatewayDeployment
	// listener is called with each Gateway that changes; nil while nobody deploys. It must not
	// block.
	listener func(source.Key)
}

// NewDeployments returns Deployments without any.
func NewDeployments() *Deployments {
	return &Deployments{wanted: map[source.Key]*model.GatewayDeployment{}}
}

// Compiled takes what a Gateway is to be deployed as from now on; nil is not at all.
func (d *Deployments) Compiled(k source.Key, wanted *model.GatewayDeployment) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if before := d.wanted[k]; before == wanted || before != nil && wanted != nil && model.Equal(before, wanted) {
		return
	}
	if wanted == nil {
		delete(d.wanted, k)
	} else {
		d.wanted[k] = wanted
	}
	if d.listener != nil {
		d.listener(k)
	}
}

// get returns what a Gateway is to be deployed as, nil if not at all.
func (d *Deployments) get(k source.Key) *model.GatewayDeployment {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wanted[k]
}

// all returns all Gateways that are deployed.
func (d *Deployments) all() []source.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sorted()
}

// sorted is all, under the lock.
func (d *Deployments) sorted() []source.Key {
	return slices.SortedFunc(maps.Keys(d.wanted), source.Key.Compare)
}

// listen sets the listener, and returns all Gateways that are deployed.
func (d *Deployments) listen(listener func(source.Key)) []source.Key {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listener = listener
	return d.sorted()
}
