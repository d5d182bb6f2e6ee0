package observe

import (
	"fmt"
	"io"
	"log/slog"
)

// LogFormat is how a log line is written.
type LogFormat string

const (
	// Text is key=value, for people.
	Text LogFormat = "text"
	// JSON is one object per line, for collectors.
	JSON LogFormat = "json"
)

// NewLogger returns a logger that writes lines of at least the given level, which may change. An
// unknown format is an error.
func NewLogger(w io.Writer, level slog.Leveler, format LogFormat) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: level}
	switch format {
	case Text:
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case JSON:
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	default:
		return nil, fmt.Errorf("log format %q does not exist; want %q or %q", format, Text, JSON)
	}
}
