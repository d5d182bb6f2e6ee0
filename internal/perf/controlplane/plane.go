package controlplane

import (
	"context"
	"errors"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Plane is a control plane.
type Plane interface {
	// Start gives it a mesh, and returns when it accepts proxies.
	Start(ctx context.Context, mesh []source.Change) error
	// Apply writes changes, and returns when they are written. It is safe for concurrent use.
	Apply(ctx context.Context, changes ...source.Change) error
	// Address is its xDS address, "127.0.0.1:15010".
	Address() string
	// Describe returns its name and version, for reports.
	Describe(ctx context.Context) Description
	// Usage returns what its processes have used so far, those before a restart included.
	Usage(ctx context.Context) (measure.Usage, error)
	// Restart ends it and starts it again. It returns when the new process runs, which may not
	// accept proxies yet.
	Restart(ctx context.Context) error
	// Warm makes it send everything to all proxies, so that its caches are full. It reports whether
	// there is a way.
	Warm(ctx context.Context) (bool, error)
	// Profile records a CPU profile until stop, which returns it in pprof's format.
	Profile(ctx context.Context) (stop func() ([]byte, error), err error)
	// Collect makes it return unused memory to the system, so that Usage shows what it needs.
	Collect(ctx context.Context) error
	// Done is closed when it has ended unasked. Err then says how.
	Done() <-chan struct{}
	Err() error
	// Close ends what Start began, and deletes what was written.
	Close(ctx context.Context) error
}

// Description identifies a control plane.
type Description struct {
	// Name is "lateen", or what its metrics call it.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Source is where it reads its objects.
	Source string `json:"source"`
}

// ErrUnsupported is returned for what a control plane cannot do.
var ErrUnsupported = errors.ErrUnsupported
