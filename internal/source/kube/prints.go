package kube

import (
	"slices"
	"strings"
	"sync"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// prints are the fingerprints of what was delivered of one resource, by namespace and name. An object has one watcher at a time, so
// the lock orders only the maps, not the deliveries.
type prints struct {
	kind kinds.Kind

	mu          sync.Mutex
	byNamespace map[string][]delivered // by name
}

// delivered is one object. A sorted list of these has half the size of a map.
type delivered struct {
	name  string
	print print
}

func newPrints(kind kinds.Kind) *prints {
	return &prints{kind: kind, byNamespace: map[string][]delivered{}}
}

// get is 0 for an object of which nothing was delivered.
func (p *prints) get(k source.Key) print {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.byNamespace[k.Namespace]
	if i, found := find(list, k.Name); found {
		return list[i].print
	}
	return 0
}

func find(list []delivered, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(d delivered, name string) int { return strings.Compare(d.name, name) })
}

// put notes what was delivered; 0 forgets it.
func (p *prints) put(k source.Key, now print) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.byNamespace[k.Namespace]
	i, found := find(list, k.Name)
	switch {
	case found && now != 0:
		list[i].print = now
		return
	case found:
		list = slices.Delete(list, i, i+1)
	case now != 0:
		list = slices.Insert(list, i, delivered{k.Name, now})
	}
	if len(list) == 0 {
		delete(p.byNamespace, k.Namespace)
		return
	}
	p.byNamespace[k.Namespace] = list
}

// in are the keys of one namespace, or of all for an empty name.
func (p *prints) in(namespace string) []source.Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []source.Key
	for ns, list := range p.byNamespace {
		if namespace != "" && ns != namespace {
			continue
		}
		for _, d := range list {
			keys = append(keys, source.Key{Kind: p.kind, Namespace: ns, Name: d.name})
		}
	}
	return keys
}

// namespaces are those with anything delivered.
func (p *prints) namespaces() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for ns := range p.byNamespace {
		all = append(all, ns)
	}
	return all
}
