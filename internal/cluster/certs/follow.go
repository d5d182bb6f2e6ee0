package certs

import (
	"context"
	"log/slog"
	"time"
)

// rereadInterval is how often files are read. Mounted Secrets change by links, which are not worth
// watching.
const rereadInterval = 10 * time.Second

// follow calls reload at once and then every rereadInterval until ctx ends, with the content that
// it returned last. An error is logged with a message; what was read before stays in use.
func follow[T any](ctx context.Context, log *slog.Logger, message string, reload func(last T) (now T, err error)) {
	ticker := time.NewTicker(rereadInterval)
	defer ticker.Stop()
	var last T
	for {
		now, err := reload(last)
		if err != nil {
			log.Error(message, "error", err)
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
