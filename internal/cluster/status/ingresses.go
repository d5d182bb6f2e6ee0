package status

import (
	"maps"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// Ingresses holds which Ingresses belong to the mesh as compiled, and which Service stands in front
// of the mesh's gateways. It is safe for concurrent use.
type Ingresses struct {
	mu      sync.Mutex
	owned   map[source.Key]string // their UIDs
	service string
	// firstState is closed with the first state.
	firstState chan struct{}
	started    bool
	// listener is called with each Ingress that begins or ceases to belong to the mesh,
	// serviceChanged when the Service is another one. Both are nil while nobody writes, and must
	// not block.
	listener       func(source.Key)
	serviceChanged func()
}

// NewIngresses returns an Ingresses without any.
func NewIngresses() *Ingresses {
	return &Ingresses{owned: map[source.Key]string{}, firstState: make(chan struct{})}
}

// IngressChange says whether an Ingress belongs to the mesh, and which object it is.
type IngressChange struct {
	Key   source.Key
	UID   string
	Owned bool
}

// Compiled takes the changes of a generation, and the name of the Service (empty for none).
func (i *Ingresses) Compiled(changes []IngressChange, service string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range changes {
		if c.Owned {
			i.owned[c.Key] = c.UID
		} else {
			delete(i.owned, c.Key)
		}
		if i.listener != nil {
			i.listener(c.Key)
		}
	}
	if service != i.service {
		i.service = service
		if i.serviceChanged != nil {
			i.serviceChanged()
		}
	}
	if !i.started {
		i.started = true
		close(i.firstState)
	}
}

// uid returns the UID of an Ingress of the mesh; ok is false if it does not belong to the mesh.
func (i *Ingresses) uid(k source.Key) (uid string, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	uid, ok = i.owned[k]
	return uid, ok
}

func (i *Ingresses) gatewayService() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.service
}

func (i *Ingresses) all() []source.Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.SortedFunc(maps.Keys(i.owned), source.Key.Compare)
}

// listen sets the listeners.
func (i *Ingresses) listen(listener func(source.Key), renamed func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listener, i.serviceChanged = listener, renamed
}
