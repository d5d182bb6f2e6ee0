package certs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
)

// Files are a certificate of the operator's own, its key and optionally its roots, all in PEM.
// Without roots the webhook's configuration is left alone.
type Files struct{ Certificate, Key, CA string }

// Load reads the files once.
func (f Files) Load(h *Holder) error {
	_, err := f.reload(h, [3][]byte{})
	return err
}

// Run rereads the files until ctx ends. If they are invalid, the last valid ones stay in use.
func (f Files) Run(ctx context.Context, h *Holder, log *slog.Logger) {
	follow(ctx, log, "the serving certificate cannot be read; the last one stays in force",
		func(last [3][]byte) ([3][]byte, error) { return f.reload(h, last) })
}

// reload reads the files and passes them to the Holder if they differ from last. It returns their
// content.
func (f Files) reload(h *Holder, last [3][]byte) (now [3][]byte, err error) {
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
