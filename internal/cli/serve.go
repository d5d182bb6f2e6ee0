package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/observe/memory"
	"github.com/lateen-mesh/lateen/internal/source/dir"
	"github.com/lateen-mesh/lateen/internal/source/mirror"
)

// defaultDrain is Istio's default of --drain-time-s of proxies.
const defaultDrain = 45 * time.Second

// listenFlags are the addresses of the control plane, on loopback by default.
type listenFlags struct {
	xds, monitoring   string
	insecurePlaintext bool
	trustPlaintext    bool
}

func (f *listenFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.xds, "xds-address", "127.0.0.1:15010", "where to serve xDS, in plaintext")
	cmd.Flags().StringVar(&f.monitoring, "monitoring-address", "127.0.0.1:15014", "where to serve /metrics and /debug")
	cmd.Flags().BoolVar(
		&f.insecurePlaintext,
		"insecure-plaintext",
		false,
		"allow an --xds-address that is no loopback address, where the network can read configuration and tokens",
	)
	hostPort(cmd.Flags(), "xds-address", &f.xds)
	hostPort(cmd.Flags(), "monitoring-address", &f.monitoring)
}

func (f *listenFlags) listen() (xds, monitoring net.Listener, err error) {
	if xds, err = listenAt(f.xds, "--xds-address"); err != nil {
		return nil, nil, err
	}
	if !isLoopback(xds) && !f.insecurePlaintext && !f.trustPlaintext {
		_ = xds.Close()
		return nil, nil, fmt.Errorf("--xds-address %s is no loopback address, and what it serves is in plaintext; "+
			"want 127.0.0.1:PORT, --secure-xds-address for TLS, or --insecure-plaintext if the network is trusted",
			f.xds)
	}
	if monitoring, err = listenAt(f.monitoring, "--monitoring-address"); err != nil {
		_ = xds.Close()
		return nil, nil, err
	}
	return xds, monitoring, nil
}

// plaintext says how clients of the plaintext listener prove who they are.
func (f *listenFlags) plaintext(l net.Listener, trustLoopback bool) app.PlaintextListener {
	local := isLoopback(l)
	return app.PlaintextListener{
		Address:       l.Addr(),
		TrustsAll:     f.trustPlaintext || local && trustLoopback,
		RefusesTokens: !local && !f.insecurePlaintext,
	}
}

func isLoopback(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

func listenAt(address, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf(
			"%s %s: %w; is another lateen running? Another address can be given with %s (port 0 takes a free one)",
			flag,
			address,
			err,
			flag,
		)
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w; want an address of this machine", flag, address, err)
	}
	return l, nil
}

// serveOptions are the flags of lateen serve.
type serveOptions struct {
	listen              listenFlags
	configDir, stateDir string
	cluster             clusterFlags
	drain               time.Duration
	connectionAge       time.Duration
	debugHosts          []string
	level, format       string
}

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve [--config-dir DIR | --kubeconfig FILE]",
		Short: "Run the control plane alone, for proxies that somebody else starts",
		Long: `Serves what a Kubernetes cluster holds, the one that it runs in or the one of
--kubeconfig; with --config-dir, what a directory of manifests does.`,
		Example: `  lateen serve                                # in a cluster
  lateen serve --kubeconfig ~/.kube/config    # of a cluster, from outside
  lateen serve --config-dir manifests`,
		Args: arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.listen.bind(cmd)
	cmd.Flags().StringVar(&o.configDir, "config-dir", "", "directory of manifests, in place of a cluster")
	cmd.Flags().StringVar(
		&o.stateDir, "state-dir", ".lateen/serve", "with --config-dir: where the last valid reading of each file "+
			"is recorded",
	)
	o.cluster.bind(cmd, os.Getenv)
	cmd.Flags().BoolVar(
		&o.listen.trustPlaintext,
		"trust-plaintext",
		false,
		"believe proxies on --xds-address without a token, also if that is not a loopback address",
	)
	cmd.Flags().DurationVar(
		&o.drain, "proxy-drain", defaultDrain, "how long the proxies' replaced listeners serve on (Envoy's "+
			"--drain-time-s)",
	)
	atLeast(cmd.Flags(), "proxy-drain", &o.drain, 0)
	bindConnectionAge(cmd, &o.connectionAge)
	cmd.Flags().StringSliceVar(&o.debugHosts, "debug-host", nil,
		"a name by which to ask for /debug, beside localhost, IP addresses and the names of the Service")
	bindLogFlags(cmd, &o.level, &o.format)
	_ = cmd.MarkFlagDirname("config-dir")
	_ = cmd.MarkFlagFilename("kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("config-dir", "kubeconfig")
	o.cluster.presence.excludeWith(cmd, "config-dir")
	return cmd
}

func (o *serveOptions) run(cmd *cobra.Command) error {
	log, settings, err := loggerAndSettings(o.level, o.format)
	if err != nil {
		return err
	}
	p := app.Options{Config: settings, Mesh: model.DefaultMesh(), ProxyDrain: o.drain, Log: log, Version: version}
	if o.configDir != "" {
		if err := requireManifests(o.configDir, o.stateDir); err != nil {
			return err
		}
		p.Source = mirror.New(dir.New(dir.Options{Path: o.configDir, StateDir: o.stateDir, Logger: log}))
	} else if err := o.cluster.source(&p); err != nil {
		return err
	}
	if p.XDS, p.Monitoring, err = o.listen.listen(); err != nil {
		return err
	}
	if review, ok := p.Authenticator.(app.ReviewAuthenticator); ok {
		review.Plaintext = o.listen.plaintext(p.XDS, o.cluster.trustLoopback)
		p.Authenticator = review
	}
	if o.configDir == "" {
		if err := o.cluster.join(&p); err != nil {
			return err
		}
	}
	p.DebugHosts, p.ConnectionAge = o.debugHosts, o.connectionAge
	p.MemoryTight = memoryTight(log)
	log.Info("serving", "xds", p.XDS.Addr().String(), "monitoring", p.Monitoring.Addr().String())
	return app.New(p).Run(cmd.Context())
}

// istiodConnectionAge is istiod's name of --max-connection-age. Charts and pipelines that run
// istiod have it.
const istiodConnectionAge = "keepaliveMaxServerConnectionAge"

// bindConnectionAge binds --max-connection-age, under istiod's name too. istiod spells "never" as
// the longest duration; here that is one that nobody lives to see.
func bindConnectionAge(cmd *cobra.Command, age *time.Duration) {
	const name = "max-connection-age"
	flags := cmd.Flags()
	for _, n := range []string{name, istiodConnectionAge} {
		flags.DurationVar(age, n, 0, "end connections of proxies at that age, give or take a tenth, so that they "+
			"spread over replicas anew (0: never)")
		validateFlag(flags, n, func() error {
			if *age != 0 && *age < leastConnectionAge {
				return fmt.Errorf("want 0 or %v or more", leastConnectionAge)
			}
			if *age > neverConnectionAge {
				*age = 0
			}
			return nil
		})
	}
	_ = flags.MarkHidden(istiodConnectionAge)
}

const (
	// leastConnectionAge keeps proxies from connecting all the time.
	leastConnectionAge = time.Second
	neverConnectionAge = 10 * 365 * 24 * time.Hour
)

// loggerAndSettings returns the log of a control plane without a screen, and the settings of the
// environment.
func loggerAndSettings(level, format string) (*slog.Logger, config.Config, error) {
	log, err := newLogger(os.Stderr, level, format)
	if err != nil {
		return nil, config.Config{}, err
	}
	settings, err := config.FromEnv(os.LookupEnv)
	return log, settings, err
}

// memoryTight makes the process economical with memory and keep its memory limit. It returns
// whether that limit is near, or nil without a limit.
func memoryTight(log *slog.Logger) func() bool {
	_ = memory.TuneGC(os.LookupEnv) // until the process ends
	limit := memory.ApplyLimit(os.DirFS("/"), os.LookupEnv)
	if limit == nil {
		return nil
	}
	log.Info("memory is limited", "bytes", limit.Bytes, "by", limit.From)
	return limit.Tight
}

func bindLogFlags(cmd *cobra.Command, level, format *string) {
	cmd.Flags().StringVar(level, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(format, "log-format", "text", "text or json")
	validateFlag(cmd.Flags(), "log-level", func() error {
		_, err := parseLevel(*level)
		return err
	})
	oneOf(cmd, "log-format", format, string(observe.Text), string(observe.JSON))
}

func parseLevel(level string) (l slog.Level, err error) {
	if l.UnmarshalText([]byte(level)) != nil {
		return l, errors.New("want debug, info, warn or error")
	}
	return l, nil
}

func newLogger(out *os.File, level, format string) (*slog.Logger, error) {
	l, err := parseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("log level %q: %w", level, err)
	}
	return observe.NewLogger(out, l, observe.LogFormat(format))
}

// requireManifests rejects a directory that has never existed, because serving an empty mesh
// instead would be a mistake. If the directory has vanished since the last run, the last state
// stays in force.
func requireManifests(configDir, stateDir string) error {
	if _, err := os.Stat(configDir); err == nil {
		return nil
	}
	if records, err := os.ReadDir(stateDir); err == nil && len(records) > 0 {
		return nil
	}
	return fmt.Errorf(
		"--config-dir %s: there is no such directory, and no earlier reading of it in --state-dir %s",
		configDir,
		stateDir,
	)
}
