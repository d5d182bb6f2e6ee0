package xdsproxy

import (
	"sync"

	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// acceptance finds when clusters and listeners were accepted for the first time.
type acceptance struct {
	then func()

	mu                  sync.Mutex
	clusters, listeners bool
	done                bool
}

// saw takes in a request of Envoy.
func (a *acceptance) saw(q wire.Request) {
	if q.Ack == "" || q.IsRefusal {
		return
	}
	a.mu.Lock()
	a.clusters = a.clusters || q.TypeURL == typeurl.Cluster
	a.listeners = a.listeners || q.TypeURL == typeurl.Listener
	isNew := a.clusters && a.listeners && !a.done
	a.done = a.done || isNew
	a.mu.Unlock()
	if isNew && a.then != nil {
		a.then()
	}
}

// streamEnded resets the ACKs seen so far: CDS and LDS must be accepted on one stream.
func (a *acceptance) streamEnded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clusters, a.listeners = false, false
}

func (a *acceptance) isDone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}
