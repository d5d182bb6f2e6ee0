package app

import (
	"context"
	"errors"
	"maps"
	"sync"

	"github.com/lateen-mesh/lateen/internal/mesh/census"
)

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
