package status

import (
	"maps"
	"slices"
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// Ingresses holds which Ingresses are the mesh's as they were compiled, and which Service stands
// before its gateways. It grows with them. It is safe for concurrent use.
type Ingresses struct {
	mu      sync.Mutex
	taken   map[source.Key]string // their UIDs
	service string
	// complete is closed with the first state.
	complete chan struct{}
	started  bool
	// listener is told of Ingresses that were taken or let go, renamed that the Service is another
	// one; nil while nobody writes. They must not block.
	listener func(source.Key)
	renamed  func()
}

// NewIngresses knows of none.
func NewIngresses() *Ingresses {
	return &Ingresses{taken: map[source.Key]string{}, complete: make(chan struct{})}
}

// IngressChange is an Ingress that was taken, as the object with this UID, or that is no longer the
// mesh's.
type IngressChange struct {
	Key   source.Key
	UID   string
	Taken bool
}

// Compiled takes what a generation changed, and the name of the Service, empty for none.
func (i *Ingresses) Compiled(changes []IngressChange, service string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, c := range changes {
		if c.Taken {
			i.taken[c.Key] = c.UID
		} else {
			delete(i.taken, c.Key)
		}
		if i.listener != nil {
			i.listener(c.Key)
		}
	}
	if service != i.service {
		i.service = service
		if i.renamed != nil {
			i.renamed()
		}
	}
	if !i.started {
		i.started = true
		close(i.complete)
	}
}

// uid tells which object an Ingress of the mesh is; ok is false if it is not the mesh's.
func (i *Ingresses) uid(k source.Key) (uid string, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	uid, ok = i.taken[k]
	return uid, ok
}

func (i *Ingresses) gateway() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.service
}

func (i *Ingresses) all() []source.Key {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.SortedFunc(maps.Keys(i.taken), source.Key.Compare)
}

// listen sets who is told of news.
func (i *Ingresses) listen(listener func(source.Key), renamed func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.listener, i.renamed = listener, renamed
}
