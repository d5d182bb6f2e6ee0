package kube

import (
	"slices"
	"strings"
	"sync"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// fingerprints has the fingerprints of what was delivered of one resource, by namespace and name.
// An object has one watcher at a time, so the lock orders access to the maps, not deliveries.
type fingerprints struct {
	kind kinds.Kind

	mu          sync.Mutex
	byNamespace map[string][]deliveredObject // by name
}

// deliveredObject is one object. A sorted list of these has half the size of a map.
type deliveredObject struct {
	name        string
	fingerprint fingerprint
}

func newFingerprints(kind kinds.Kind) *fingerprints {
	return &fingerprints{kind: kind, byNamespace: map[string][]deliveredObject{}}
}

// allFingerprints are those of all resources.
type allFingerprints struct {
	mu         sync.Mutex
	byResource map[*resource]*fingerprints
}

func newAllFingerprints() *allFingerprints {
	return &allFingerprints{byResource: map[*resource]*fingerprints{}}
}

func (a *allFingerprints) add(r *resource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byResource[r] = newFingerprints(r.kind)
}

func (a *allFingerprints) remove(r *resource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byResource, r)
}

func (a *allFingerprints) of(r *resource) *fingerprints {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byResource[r]
}

// get returns the fingerprint of an object; 0 if nothing of it was delivered.
func (p *fingerprints) get(k source.Key) fingerprint {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.byNamespace[k.Namespace]
	if i, found := find(list, k.Name); found {
		return list[i].fingerprint
	}
	return 0
}

func find(list []deliveredObject, name string) (int, bool) {
	return slices.BinarySearchFunc(
		list, name, func(d deliveredObject, name string) int { return strings.Compare(d.name, name) },
	)
}

// put records what was delivered; 0 removes the object.
func (p *fingerprints) put(k source.Key, now fingerprint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.byNamespace[k.Namespace]
	i, found := find(list, k.Name)
	switch {
	case found && now != 0:
		list[i].fingerprint = now
		return
	case found:
		list = slices.Delete(list, i, i+1)
	case now != 0:
		list = slices.Insert(list, i, deliveredObject{k.Name, now})
	}
	if len(list) == 0 {
		delete(p.byNamespace, k.Namespace)
		return
	}
	p.byNamespace[k.Namespace] = list
}

// keys returns the keys of one namespace, or of all for an empty name.
func (p *fingerprints) keys(namespace string) []source.Key {
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

// namespaces returns those of which anything was delivered.
func (p *fingerprints) namespaces() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for ns := range p.byNamespace {
		all = append(all, ns)
	}
	return all
}
