package kube_test

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// gate stands between one source and the API server, and can be shut: what is under way breaks, and
// nothing new gets through.
type gate struct {
	mu    sync.Mutex
	ctx   context.Context
	close context.CancelFunc
}

var errShut = errors.New("the gate is shut")

// gated is a configuration whose requests go through a gate.
func gated(config *rest.Config) (*rest.Config, *gate) {
	g := &gate{}
	g.open()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return through{g, next} })
	return config, g
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx, g.close = context.WithCancel(context.Background())
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.close()
}

func (g *gate) context() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ctx
}

type through struct {
	gate *gate
	next http.RoundTripper
}

func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	passage := t.gate.context()
	if passage.Err() != nil {
		return nil, errShut
	}
	ctx, cancel := context.WithCancel(r.Context())
	context.AfterFunc(passage, cancel)
	return t.next.RoundTrip(r.WithContext(ctx))
}
