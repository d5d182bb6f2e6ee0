package controlplane

import (
	"context"
	"errors"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Plane is a control plane.
type Plane interface {
	// Start lets it have a mesh, and returns when it takes proxies.
	Start(ctx context.Context, mesh []source.Change) error
	// Apply writes changes, and returns when they are written. It may be called by several at a time.
	Apply(ctx context.Context, changes ...source.Change) error
	// Address is where it serves xDS, "127.0.0.1:15010".
	Address() string
	// Describe says what it is and its version, for reports.
	Describe(ctx context.Context) Description
	// Usage is what its process has used so far, those before a restart included.
	Usage(ctx context.Context) (measure.Usage, error)
	// Restart ends it and starts it again; it returns when the new process is there, whether or not it takes proxies.
	Restart(ctx context.Context) error
	// Warm lets it send everything to all proxies, after which it may have at hand what others want. It tells whether there is a way.
	Warm(ctx context.Context) (bool, error)
	// Profile records where CPU time goes until stop, which returns the profile in pprof's format.
	Profile(ctx context.Context) (stop func() ([]byte, error), err error)
	// Collect lets it give back the memory that it does not need, so that Usage tells what it does.
	Collect(ctx context.Context) error
	// Done is closed when it has ended, which nobody has asked for; Err then says how.
	Done() <-chan struct{}
	Err() error
	// Close ends what Start began, and takes away what was written.
	Close(ctx context.Context) error
}

// Description says what a control plane is.
type Description struct {
	// Name is "lateen", or what its metrics call it.
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	// Source is where it has its objects from.
	Source string `json:"source"`
}

// ErrUnsupported is what a control plane cannot be told to do.
var ErrUnsupported = errors.ErrUnsupported
