package serve

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/process"
	"github.com/lateen-mesh/lateen/internal/source/dir"
	"github.com/lateen-mesh/lateen/internal/source/mirror"
	"github.com/lateen-mesh/lateen/internal/source/selected"
)

// serveOptions are the flags of lateen serve.
type serveOptions struct {
	listen              process.ListenFlags
	configDir, stateDir string
	cluster             clusterFlags
	drain               time.Duration
	connectionAge       time.Duration
	debugHosts          []string
	log                 process.LogFlags
	logControl          string
}

// Command returns the command.
func Command() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve [--config-dir DIR | --kubeconfig FILE]",
		Short: "Run the control plane alone, for proxies that somebody else starts",
		Long: `Serves what a Kubernetes cluster holds, the one that it runs in or the one of
--kubeconfig; with --config-dir, what a directory of manifests does.`,
		Example: `  lateen serve                                # in a cluster
  lateen serve --kubeconfig ~/.kube/config    # of a cluster, from outside
  lateen serve --config-dir manifests`,
		Args: command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	o.listen.Bind(cmd)
	cmd.Flags().StringVar(&o.configDir, "config-dir", "", "directory of manifests, in place of a cluster")
	cmd.Flags().StringVar(
		&o.stateDir, "state-dir", ".lateen/serve", "with --config-dir: where the last valid reading of each file "+
			"is recorded",
	)
	o.cluster.bind(cmd, os.Getenv)
	cmd.Flags().BoolVar(
		&o.listen.TrustPlaintext,
		"trust-plaintext",
		false,
		"believe proxies on --xds-address without a token, also if that is not a loopback address",
	)
	cmd.Flags().DurationVar(
		&o.drain, "proxy-drain", process.DefaultDrain, "how long the proxies' replaced listeners serve on (Envoy's "+
			"--drain-time-s)",
	)
	command.AtLeast(cmd.Flags(), "proxy-drain", &o.drain, 0)
	bindConnectionAge(cmd, &o.connectionAge)
	cmd.Flags().StringSliceVar(&o.debugHosts, "debug-host", nil,
		"a name by which to ask for /debug, beside localhost, IP addresses and the names of the Service")
	o.log.Bind(cmd)
	cmd.Flags().StringVar(&o.logControl, "log-control-address", "",
		"a loopback address where istioctl admin log changes the level of the log, as 127.0.0.1:9876")
	command.ValidateFlag(cmd.Flags(), "log-control-address", o.checkLogControl)
	_ = cmd.MarkFlagDirname("config-dir")
	_ = cmd.MarkFlagFilename("kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("config-dir", "kubeconfig")
	o.cluster.presence.excludeWith(cmd, "config-dir")
	return cmd
}

func (o *serveOptions) run(cmd *cobra.Command) error {
	log, settings, err := o.log.Settings()
	if err != nil {
		return err
	}
	p := app.Options{Config: settings, Mesh: model.DefaultMesh(), ProxyDrain: o.drain, Log: log, Version: build.Version}
	if o.configDir != "" {
		if err := requireManifests(o.configDir, o.stateDir); err != nil {
			return err
		}
		files := dir.New(dir.Options{Path: o.configDir, StateDir: o.stateDir, Logger: log})
		p.Source, p.Selected = selected.New(mirror.New(files), p.Mesh.RootNamespace, ""), true
	} else if err := o.cluster.source(&p); err != nil {
		return err
	}
	if p.XDS, p.Monitoring, err = o.listen.Listen(); err != nil {
		return err
	}
	if review, ok := p.Authenticator.(app.ReviewAuthenticator); ok {
		review.Plaintext = o.listen.Plaintext(p.XDS, o.cluster.trustLoopback)
		p.Authenticator = review
	}
	if o.configDir == "" {
		if err := o.cluster.join(&p); err != nil {
			return err
		}
	}
	if p.LogControl, err = o.controlLog(); err != nil {
		return err
	}
	p.DebugHosts, p.ConnectionAge = o.debugHosts, o.connectionAge
	p.MemoryTight = process.MemoryTight(log)
	log.Info("serving", "xds", p.XDS.Addr().String(), "monitoring", p.Monitoring.Addr().String())
	pipeline := app.New(p)
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	trimmed := process.TrimAfterStart(ctx, pipeline.Opened(), log)
	err = pipeline.Run(ctx)
	cancel()
	<-trimmed
	return err
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
		command.ValidateFlag(flags, n, func() error {
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
