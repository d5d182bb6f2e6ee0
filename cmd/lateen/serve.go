package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/config"
	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source/dir"
)

// defaultDrain is Istio's --drain-time-s of proxies.
const defaultDrain = 45 * time.Second

// listenFlags are where the control plane listens: loopback, unless told otherwise.
type listenFlags struct{ xds, monitoring string }

func (f *listenFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.xds, "xds-address", "127.0.0.1:15010", "where to serve xDS, in plaintext")
	cmd.Flags().StringVar(&f.monitoring, "monitoring-address", "127.0.0.1:15014", "where to serve /metrics and /debug")
}

func (f *listenFlags) listen() (xds, monitoring net.Listener, err error) {
	if xds, err = listenAt(f.xds, "--xds-address"); err != nil {
		return nil, nil, err
	}
	if monitoring, err = listenAt(f.monitoring, "--monitoring-address"); err != nil {
		_ = xds.Close()
		return nil, nil, err
	}
	return xds, monitoring, nil
}

func listenAt(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w; is another lateen running? Another address can be given with %s (port 0 takes a free one)", flag, address, err, flag)
	}
	return l, nil
}

func newServe() *cobra.Command {
	var listen listenFlags
	var configDir, stateDir, level, format string
	var drain time.Duration
	cmd := &cobra.Command{
		Use:     "serve --config-dir DIR",
		Short:   "Run the control plane alone, for proxies that somebody else starts",
		Example: `  lateen serve --config-dir manifests`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := haveManifests(configDir, stateDir); err != nil {
				return err
			}
			log, err := newLogger(os.Stderr, level, format)
			if err != nil {
				return err
			}
			settings, err := config.FromEnv(os.LookupEnv)
			if err != nil {
				return err
			}
			xds, monitoring, err := listen.listen()
			if err != nil {
				return err
			}
			log.Info("serving", "xds", xds.Addr().String(), "monitoring", monitoring.Addr().String())
			pipeline := app.New(app.Options{
				Source: dir.New(dir.Options{Path: configDir, StateDir: stateDir, Logger: log}),
				Config: settings, Mesh: model.DefaultMesh(), XDS: xds, Monitoring: monitoring, ProxyDrain: drain, Log: log, Version: version,
			})
			return pipeline.Run(cmd.Context())
		},
	}
	listen.bind(cmd)
	cmd.Flags().StringVar(&configDir, "config-dir", "", "directory of manifests")
	cmd.Flags().StringVar(&stateDir, "state-dir", ".lateen/serve", "where the last valid reading of each file is recorded")
	cmd.Flags().DurationVar(&drain, "proxy-drain", defaultDrain, "how long the proxies' replaced listeners serve on (Envoy's --drain-time-s)")
	bindLogFlags(cmd, &level, &format)
	_ = cmd.MarkFlagRequired("config-dir")
	_ = cmd.MarkFlagDirname("config-dir")
	return cmd
}

func bindLogFlags(cmd *cobra.Command, level, format *string) {
	cmd.Flags().StringVar(level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(format, "log-format", "text", "text or json")
}

func newLogger(out *os.File, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	return observe.NewLogger(out, l, observe.LogFormat(format))
}

// haveManifests refuses a directory that was never there: an empty mesh would be served in place of the one that was meant. One
// that has vanished since is another matter, its last state stays in force.
func haveManifests(configDir, stateDir string) error {
	if _, err := os.Stat(configDir); err == nil {
		return nil
	}
	if records, err := os.ReadDir(stateDir); err == nil && len(records) > 0 {
		return nil
	}
	return fmt.Errorf("--config-dir %s: there is no such directory, and no earlier reading of it in --state-dir %s", configDir, stateDir)
}
