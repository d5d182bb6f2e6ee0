package certs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// Files are where an operator keeps a certificate, its key, and the roots (if need be: without them
// the webhook's configuration is left alone), all in PEM.
type Files struct{ Certificate, Key, CA string }

// rereadEvery is how often files are looked at: mounted Secrets change by links, which are not
// worth to be watched.
const rereadEvery = 10 * time.Second

// Load reads the files once.
func (f Files) Load(h *Holder) error {
	_, err := f.load(h, [3][]byte{})
	return err
}

// Run reads the files again and again until ctx ends. Files that are of no use leave the last good
// ones in force.
func (f Files) Run(ctx context.Context, h *Holder, log *slog.Logger) {
	ticker := time.NewTicker(rereadEvery)
	defer ticker.Stop()
	var last [3][]byte
	for {
		now, err := f.load(h, last)
		if err != nil {
			log.Error("the serving certificate cannot be read; the last one stays in force", "error", err)
		}
		last = now
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// load reads the files and puts them in force if they differ from the last ones that it gave back.
func (f Files) load(h *Holder, last [3][]byte) (now [3][]byte, err error) {
	for i, name := range []string{f.Certificate, f.Key, f.CA} {
		if name == "" {
			continue
		}
		if now[i], err = os.ReadFile(name); err != nil {
			return last, err
		}
	}
	if bytes.Equal(now[0], last[0]) && bytes.Equal(now[1], last[1]) && bytes.Equal(now[2], last[2]) {
		return now, nil
	}
	if err := h.set(now[0], now[1], now[2]); err != nil {
		return last, fmt.Errorf("%s and %s: %w", f.Certificate, f.Key, err)
	}
	return now, nil
}
