package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/process"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/agents"
	"github.com/lateen-mesh/lateen/internal/local/observe"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/dir"
	"github.com/lateen-mesh/lateen/internal/source/mirror"
	"github.com/lateen-mesh/lateen/internal/source/selected"
)

type upOptions struct {
	dir                           string
	listen                        process.ListenFlags
	freePorts                     bool
	envoy                         string
	stateDir                      string
	log                           process.LogFlags
	check                         bool
	requests                      int
	timeout                       time.Duration
	drain                         time.Duration
	separate                      bool
	plaintext                     bool
	observe                       bool
	prometheus, prometheusAddress string
}

// Command returns the command up.
func Command(out *terminal.Writer) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use:   "up DIR",
		Short: "Run a mesh on this machine, from a directory of manifests",
		Long: `Reads ordinary Kubernetes and Istio manifests from DIR, watches them, and plays the
kubelet: each replica gets loopback addresses of its own, its containers run as local processes,
each with an Envoy beside it. Envoys call each other in mutual TLS, by certificates of an authority
that lives as long as the mesh. Nothing needs root, Docker or Kubernetes. Ctrl-C ends everything that
it started.`,
		Example: `  lateen up examples/bookinfo
  lateen up examples/bookinfo --check         # send requests through its gateway, exit 0 or 1
  lateen up examples/bookinfo --free-ports    # beside another mesh`,
		Args: command.Arguments("DIR"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.dir = args[0]
			o.applyDefaults(cmd.Flags().Changed)
			if o.check && o.stateDir == "" {
				return runCheck(cmd.Context(), o, out)
			}
			return runUp(cmd.Context(), o, out)
		},
	}
	o.listen.Bind(cmd)
	cmd.Flags().BoolVar(
		&o.freePorts, "free-ports", false, "take free ports for gateways, xDS and monitoring, to run beside "+
			"another mesh (default with --check)",
	)
	cmd.Flags().StringVar(
		&o.envoy, "envoy", "", "Envoy binary (default: $LATEEN_ENVOY, .tools/envoy here or beside the binary, "+
			"then PATH)",
	)
	cmd.Flags().StringVar(
		&o.stateDir, "state-dir", "", "logs, bootstraps and the last valid reading of each file (default: "+
			".lateen/DIR; with --check a temporary one)",
	)
	cmd.Flags().BoolVar(
		&o.check, "check", false, "run until in sync, send requests through the gateway, print a table, exit 0 or 1",
	)
	cmd.Flags().IntVar(&o.requests, "requests", 300, "with --check: how many requests to send")
	cmd.Flags().DurationVar(
		&o.timeout, "timeout", 2*time.Minute, "with --check: how long to wait until the mesh is in sync",
	)
	cmd.Flags().DurationVar(
		&o.drain, "drain", 5*time.Second, "how long at most a replica that goes away serves the requests and "+
			"connections that it still has, once every proxy knows that it goes",
	)
	cmd.Flags().BoolVar(
		&o.separate, "separate-control-plane", false, "run the control plane as a process of its own, which is "+
			"started again when it ends; the mesh serves on without it",
	)
	cmd.Flags().BoolVar(
		&o.plaintext, "plaintext", false, "give no Envoy a certificate, so that workloads call each other in plaintext",
	)
	o.bindObserve(cmd)
	command.AtLeast(cmd.Flags(), "requests", &o.requests, 1)
	command.AtLeast(cmd.Flags(), "timeout", &o.timeout, time.Millisecond)
	command.AtLeast(cmd.Flags(), "drain", &o.drain, 0)
	o.log.Bind(cmd)
	cmd.MarkFlagsMutuallyExclusive("check", "separate-control-plane") // a check reads the mesh state in its own process
	return cmd
}

// applyDefaults sets defaults that depend on other flags: a check never disturbs a running mesh.
func (o *upOptions) applyDefaults(changed func(flag string) bool) {
	o.freePorts = o.freePorts || o.check && !changed("free-ports")
	if !o.freePorts {
		return
	}
	if !changed("xds-address") {
		o.listen.XDS = "127.0.0.1:0"
	}
	if !changed("prometheus-address") {
		o.prometheusAddress = "127.0.0.1:0"
	}
	if !changed("monitoring-address") {
		o.listen.Monitoring = "127.0.0.1:0"
	}
}

// runCheck runs a check in its own state directory, so that the result depends on the manifests and
// not on records of a running mesh. The directory, which has the logs, is kept if the check failed.
func runCheck(ctx context.Context, o upOptions, out *terminal.Writer) error {
	var err error
	if o.stateDir, err = os.MkdirTemp("", "lateen-check-"); err != nil {
		return err
	}
	if err := runUp(ctx, o, out); err != nil {
		out.Line("the logs are in %s", o.stateDir)
		return err
	}
	return os.RemoveAll(o.stateDir)
}

// mesh is a running local mesh.
type mesh struct {
	o               upOptions
	out             *terminal.Writer
	log             *slog.Logger
	xds, monitoring net.Listener // the control plane closes them
	tokens          *local.Tokens
	agents          *agents.Authority // nil: in plaintext
	runtime         *local.Runtime
	plane           plane
	snapshot        func() *state.Snapshot // nil with a separate control plane
	notices         chan local.Notice
	problems        chan problemChange
	observer        *observe.Options // nil without --observe
}

type problemChange struct{ appeared, fixed []source.Problem }

// noticeBuffer bounds the lines that wait for the screen. Lines beyond it are dropped: logs and
// lateen status have them too.
const noticeBuffer = 256

func runUp(ctx context.Context, o upOptions, out *terminal.Writer) error {
	m, err := newMesh(o, out)
	if err != nil {
		return err
	}
	defer m.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.plane.Run(ctx) })
	if m.observer != nil {
		g.Go(func() error { return observe.Run(ctx, *m.observer) })
	}
	var outcome error
	g.Go(func() error {
		defer cancel()
		if o.check {
			outcome = m.check(ctx)
		} else {
			outcome = m.show(ctx)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err // the reason why the mesh ended, not the result of an aborted check
	}
	return outcome
}

// newMesh assembles a local mesh:
//
//	source/dir ─► local (pods, endpoints) ─► control plane ─► Envoys, which local has started
func newMesh(o upOptions, out *terminal.Writer) (*mesh, error) {
	if info, err := os.Stat(o.dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%s: want a directory of manifests, as examples/bookinfo", o.dir)
	}
	envoy, err := command.FindEnvoy(o.envoy)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	settings, err := config.FromEnv(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if o.stateDir == "" {
		if o.stateDir, err = stateDirOf(".lateen", o.dir); err != nil {
			return nil, err
		}
	}
	log, err := openLog(o)
	if err != nil {
		return nil, err
	}
	xds, monitoring, err := o.listen.Listen()
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w; lateen up --free-ports takes free ones for all", err)
	}
	if err != nil {
		return nil, err
	}
	m := &mesh{
		o: o, out: out, log: log, xds: xds, monitoring: monitoring, tokens: local.NewTokens(),
		notices: make(chan local.Notice, noticeBuffer), problems: make(chan problemChange, noticeBuffer),
	}
	if err := m.assemble(local.Options{Envoy: envoy, Self: self}, settings); err != nil {
		m.close()
		return nil, errors.Join(err, xds.Close(), monitoring.Close())
	}
	return m, nil
}

// close removes the keys of the mesh.
func (m *mesh) close() {
	if m.agents == nil {
		return
	}
	if err := m.agents.Close(); err != nil {
		m.log.Error("keys are left behind", "error", err)
	}
}

// assemble makes the runtime and the control plane.
func (m *mesh) assemble(r local.Options, settings config.Config) error {
	r.StateDir, r.WorkDir, r.Environ = filepath.Join(m.o.stateDir, "pods"), m.o.dir, os.Environ()
	r.XDS, r.IstioVersion, r.Tokens = netip.MustParseAddrPort(m.xds.Addr().String()), build.IstioAPI, m.tokens
	r.Drain, r.FreePorts, r.Metrics = m.o.drain, m.o.freePorts, m.o.observe
	r.Notify = func(n local.Notice) { offer(m.notices, n) }
	r.Settled = func(ctx context.Context) ([]string, error) { return m.plane.Settled(ctx) }

	var err error
	if m.o.observe {
		if m.observer, err = m.newObserver(); err != nil {
			return err
		}
	}
	if !m.o.plaintext {
		if m.agents, err = agents.New(m.log); err != nil {
			return err
		}
		r.Agents = m.agents
	}
	var separate *separatePlane
	if m.o.separate {
		if separate, err = newSeparatePlane(m); err != nil {
			return err
		}
		r.ControlPlane = separate.companion(r.Self)
	}
	manifests := dir.New(dir.Options{Path: m.o.dir, StateDir: filepath.Join(m.o.stateDir, "manifests"), Logger: m.log})
	if m.runtime, err = local.New(mirror.New(manifests), r); err != nil {
		return err
	}
	if m.o.separate {
		m.plane = separate
		return nil
	}
	pipeline := app.New(app.Options{
		Source: inMesh(m.runtime), Selected: true, Workers: true, Config: settings, Mesh: model.DefaultMesh(),
		XDS: m.xds, Monitoring: m.monitoring,
		Authenticator: app.TokenAuthenticator{
			Lookup: m.tokens.Account,
		}, ProxyDrain: local.ListenerDrain, Log: m.log, Version: build.Version, Pods: true,
		Problems: m.problemsChanged,
	})
	m.plane, m.snapshot = pipeline, pipeline.Snapshot
	return nil
}

// inMesh leaves out what discovery selectors do not select.
func inMesh(s source.Source) source.Source {
	return selected.New(s, model.DefaultMesh().RootNamespace, "")
}

func (m *mesh) problemsChanged(appeared, mended []source.Problem) {
	offer(m.problems, problemChange{appeared, mended})
}

func offer[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}
