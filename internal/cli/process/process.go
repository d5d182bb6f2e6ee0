package process

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/observe/memory"
)

// DefaultDrain is Istio's default of --drain-time-s of proxies.
const DefaultDrain = 45 * time.Second

// LogFlags say how much is logged, and how.
type LogFlags struct {
	Level, Format string
	// Now is the level of the lines of the last Logger. It may be changed later.
	Now *slog.LevelVar
}

// Bind binds the flags to a command.
func (f *LogFlags) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&f.Format, "log-format", "text", "text or json")
	command.ValidateFlag(cmd.Flags(), "log-level", func() error {
		_, err := parseLevel(f.Level)
		return err
	})
	command.OneOf(cmd, "log-format", &f.Format, string(observe.Text), string(observe.JSON))
}

// Logger writes to a file.
func (f *LogFlags) Logger(out *os.File) (*slog.Logger, error) {
	l, err := parseLevel(f.Level)
	if err != nil {
		return nil, fmt.Errorf("log level %q: %w", f.Level, err)
	}
	f.Now = &slog.LevelVar{}
	f.Now.Set(l)
	return observe.NewLogger(out, f.Now, observe.LogFormat(f.Format))
}

// Settings returns the log of a control plane without a screen, and the settings of the
// environment.
func (f *LogFlags) Settings() (*slog.Logger, config.Config, error) {
	log, err := f.Logger(os.Stderr)
	if err != nil {
		return nil, config.Config{}, err
	}
	settings, err := config.FromEnv(os.LookupEnv)
	for _, u := range config.UnheededIn(os.LookupEnv) {
		log.Warn("a variable of istiod has no effect", "variable", u.Name, "value", u.Value, "because", u.Why)
	}
	return log, settings, err
}

func parseLevel(level string) (l slog.Level, err error) {
	if l.UnmarshalText([]byte(level)) != nil {
		return l, errors.New("want debug, info, warn or error")
	}
	return l, nil
}

// MemoryTight makes the process economical with memory and keep its memory limit. It returns
// whether that limit is near, or nil without a limit.
func MemoryTight(log *slog.Logger) func() bool {
	_ = memory.TuneGC(os.LookupEnv) // until the process ends
	limit := memory.ApplyLimit(os.DirFS("/"), os.LookupEnv)
	if limit == nil {
		return nil
	}
	log.Info("memory is limited", "bytes", limit.Bytes, "by", limit.From)
	return limit.Tight
}
