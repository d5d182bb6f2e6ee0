package process

import (
	"context"
	"log/slog"
	"time"

	"github.com/lateen-mesh/lateen/internal/observe/footprint"
)

const (
	// trimDelay is how long after its start a control plane gives memory back: when the proxies
	// that a restart has cut off have connected again.
	trimDelay = time.Minute
	// trimEvery is how often it gives back the pages of the program afterwards.
	trimEvery = 10 * time.Minute
)

// TrimAfterStart gives back what the start of a process has used, a while after opened is closed,
// and later now and then, until ctx ends. Then it closes the channel that it returns.
func TrimAfterStart(ctx context.Context, opened <-chan struct{}, log *slog.Logger) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		trim := footprint.Trim
		select {
		case <-ctx.Done():
			return
		case <-opened:
		}
		for wait := trimDelay; ; wait = trimEvery {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			if err := trim(); err != nil {
				log.Debug("unused memory is kept", "error", err)
			}
			trim = footprint.TrimProgram
		}
	}()
	return ended
}
