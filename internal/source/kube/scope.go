package kube

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
)

// scope tells others which namespaces the discovery selectors select.
type scope struct {
	mu        sync.Mutex
	known     bool
	selectors []labels.Selector // nil: all namespaces
	changed   chan struct{}     // closed and replaced with each change
}

func newScope() *scope { return &scope{changed: make(chan struct{})} }

// set takes the selectors that are in force.
func (s *scope) set(selectors []labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	equal := func(a, b labels.Selector) bool { return a.String() == b.String() }
	if s.known && slices.EqualFunc(s.selectors, selectors, equal) && (s.selectors == nil) == (selectors == nil) {
		return
	}
	s.known, s.selectors = true, selectors
	close(s.changed)
	s.changed = make(chan struct{})
}

// Scope returns what reports whether the discovery selectors select a namespace, by its labels; nil
// as long as the mesh configuration is not known. The channel is closed when another takes its
// place.
func (s *Source) Scope() (selects func(map[string]string) bool, changed <-chan struct{}) {
	s.scope.mu.Lock()
	defer s.scope.mu.Unlock()
	if !s.scope.known {
		return nil, s.scope.changed
	}
	selectors := s.scope.selectors
	return func(namespace map[string]string) bool {
		return selectors == nil || slices.ContainsFunc(selectors, func(one labels.Selector) bool {
			return one.Matches(labels.Set(namespace))
		})
	}, s.scope.changed
}
