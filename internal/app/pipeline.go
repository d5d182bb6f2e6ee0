package app

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/api/compliance"
	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/schedule"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/mesh/validate"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// Options are what a Pipeline needs.
type Options struct {
	// Source feeds the pipeline; Run runs it.
	Source source.Source
	Config config.Config
	Mesh   model.MeshConfig // until a ConfigMap says otherwise
	// MeshConfigMap is the mesh configuration's ConfigMap in the root namespace; empty: "istio".
	MeshConfigMap string
	// Selected is set if the source applies the discovery selectors itself.
	Selected bool
	// Workers is set if proxies are started with the concurrency of the mesh's defaultConfig, as
	// injected ones always are.
	Workers bool
	// Pods is set if the source delivers the Pods of the mesh. Then a Gateway that selects none is
	// warned of.
	Pods bool
	// Metrics are those of the process; nil makes them.
	Metrics *observe.Metrics
	// XDS and Monitoring are the listeners of the xDS server and the monitoring endpoints. The
	// pipeline closes them.
	XDS, Monitoring net.Listener
	// SecureXDS serves xDS over TLS as well; nil for none. The pipeline closes it.
	SecureXDS     net.Listener
	Authenticator serve.Authenticator
	// MayReadSecrets says which gateways may have Secrets. Nil means all that prove to be the Pod
	// of a gateway.
	MayReadSecrets MayReadSecrets
	// ProxyDrain is how long proxies drain a replaced listener. Clusters that it names are kept as
	// long.
	ProxyDrain time.Duration
	// MemoryTight reports whether memory is too short for more proxies. They wait then. Nil means
	// never.
	MemoryTight func() bool
	// ClusterID is the name of the cluster, for tools; empty stands for "Kubernetes".
	ClusterID string
	// ConnectionAge is the age at which connections of proxies end, give or take a tenth. 0 means
	// never.
	ConnectionAge time.Duration
	// DebugHosts are the names by which clients may ask for the debug pages, beside localhost, IP
	// addresses and the names of the cluster's Service.
	DebugHosts []string
	Log        *slog.Logger
	LogControl LogControl
	Version    string
	// Problems is called with the problems that appeared and those that were mended. It may be nil.
	Problems func(appeared, mended []source.Problem)
	// Cluster validates and writes in a cluster; nil outside of one.
	Cluster *Cluster

	writer *state.Writer // nil makes one
}

// meshDefaults is the configuration of a mesh that sets nothing, with what the settings say of it.
func (o Options) meshDefaults() model.MeshConfig {
	mesh := o.Mesh
	mesh.OwnHostsOnly, mesh.Sessions = o.Config.OwnHostsOnly, o.Config.Sessions
	if policy := o.Config.Compliance; policy != compliance.None {
		limits := &model.TLSParams{Compliance: policy}
		mesh.MeshTLS, mesh.TLSDefaults = limits, limits
	}
	if sampling := o.Config.Sampling; sampling != nil {
		mesh.Tracing.Sampling = *sampling
	}
	return mesh
}

// checks says how the mesh is run that is checked.
func (o Options) checks() validate.Options {
	return validate.Options{
		Pods: o.Pods, DeploysGateways: o.Config.DeployGateways, OwnGateways: o.Config.OwnGateways,
	}
}

// differLimit is how many differences of sets are kept for the sessions that make the same step. It
// is enough for a few generations of a few hundred classes.
const differLimit = 4096

// Pipeline is the control plane: all stages from events to proxies.
type Pipeline struct {
	o            Options
	metrics      *observe.Metrics
	problemStore *validate.ProblemStore
	loop         *schedule.Loop
	compiler     *compile.Compiler
	hub          *fanout.Hub
	server       *serve.Server
	differ       *resource.Differ
	registry     *registrar
	monitor      *http.Server
	inspector    *admin.Inspector
	meters       *meters
	keys         *keySets
	snapshot     atomic.Pointer[state.Snapshot]
	applied      atomic.Pointer[state.Snapshot] // the latest, also if it is nothing new for proxies
	consumers    consumers
	past         past
	planning     chan struct{} // holds who makes a plan
}

// New connects the stages.
//
//	source ─► convert ─► mesh/state ─► compile (scope, translate) ─► xds/fanout ─► xds/serve ─► Envoy
func New(o Options) *Pipeline {
	o.Mesh = o.meshDefaults()
	p := &Pipeline{o: o, planning: make(chan struct{}, 1)}
	if p.metrics = o.Metrics; p.metrics == nil {
		p.metrics = observe.New(observe.Build{Version: o.Version, Start: time.Now(), Now: time.Now})
	}
	if o.writer == nil {
		o.writer = newWriter(o)
	}
	p.meters = &meters{metrics: p.metrics, known: map[uint64]struct{}{}, seed: maphash.MakeSeed()}

	p.past = p.newPast()
	p.problemStore = validate.NewProblemStore(o.Log, p.problemsChanged)
	converter := convert.New(convert.Options{
		Defaults: o.Mesh, ConfigMap: o.MeshConfigMap, Selected: o.Selected, Unready: o.Config.SendUnhealthy,
		ExternalCA: o.Cluster != nil && o.Cluster.o.External != nil,
		Injects:    o.Cluster != nil && o.Cluster.injection != nil,
		Workers:    o.Workers,
		Cluster:    o.Cluster.runsInPod(),
	})
	p.keys = newKeySets(o, p, converter)
	p.loop = schedule.NewLoop(schedule.LoopOptions{
		Converter: converter,
		Mesh:      o.Mesh,
		Writer:    o.writer,
		Debounce: schedule.Debounce{
			After:     o.Config.DebounceAfter,
			Early:     o.Config.DebounceEarly,
			Max:       o.Config.DebounceMax,
			Steady:    o.Config.DebounceSteady,
			Endpoints: o.Config.EDSDebounce,
			Moves:     o.Config.DebounceMoves,
		},
		Publish:  p.advance,
		Batched:  p.batched,
		Arrived:  p.arrived,
		Problems: p.problemStore,
		Logger:   o.Log,
		Applied:  p.batchApplied(),
		Busy:     busy,
		Checks:   o.checks(),
	})
	p.differ = resource.NewDiffer(differLimit)
	p.compiler = compile.NewCompiler(compile.Refusals{
		Endpoint: p.refusedEndpoint, Resource: p.refusedResource, Patch: p.refusedPatch,
	})
	p.compiler.Tell(func(appeared, fixed []source.Problem) {
		if p.conflicts(appeared, fixed) {
			p.loop.Conflicted()
		}
	})
	p.registry = newRegistrar(p.compiler, o.Config)
	p.registry.stated, p.registry.log = converter.Stated, o.Log
	if o.Config.HistoryBytes > 0 {
		p.registry.returned = p.past.recorder.Return
	}
	p.hub = fanout.NewHub(fanout.Options{
		Throttle: o.Config.PushThrottle,
		Metrics:  p.metrics,
		Now:      time.Now,
		Left:     p.registry.disconnected,
		Recorded: p.settled,
		Progress: func(pr fanout.Progress) {
			p.loop.Progress(schedule.Delivery{Generation: pr.Generation, NearlyAll: pr.NearlyAll, Proxy: pr.Envoy})
		},
	})
	p.registry.hub = p.hub
	p.registry.secrets = newSecretAccess(o.MayReadSecrets, o.Log)
	p.registry.secrets.snapshot = p.snapshot.Load
	p.registry.machines = newMachineConns(o.Cluster.registry(), o.Log)
	serving := serve.Options{
		Registrar:      p.registry,
		Authenticator:  p.authenticator(),
		Pushes:         p.hub,
		Differ:         p.differ,
		Metrics:        p.metrics,
		Log:            o.Log,
		Now:            time.Now,
		MakesClass:     p.registry.makesClass,
		Alone:          !o.Cluster.runsInPod(), // outside of a cluster there are no other replicas
		Drain:          o.ProxyDrain,
		WholeRoutes:    o.Config.WholeRoutes,
		WholeEndpoints: o.Config.WholeEndpoints,
		Credentials:    newConnCredentials(),
		Inspector:      inspectorOf{p},
		Health:         p.registry.machines.report,
		Limits: serve.Limits{
			StreamsPerSecond:  o.Config.MaxRequestsPerSecond,
			StreamsPerAddress: streamsPerAddress(o.Config),
			Write:             o.Config.SendTimeout,
			MemoryTight:       o.MemoryTight,
			ReceiveBytes:      o.Config.MaxRecvMsgSize,
			ConnectionAge:     o.ConnectionAge,
		},
	}
	p.certificateCalls(&serving)
	p.server = serve.New(serving)
	p.registry.secrets.end = p.server.EndGateways
	p.registry.machines.end = p.server.EndRefused
	p.consumers = p.consumersInOrder()
	pages := p.adminOptions()
	p.monitor, p.inspector = newHTTPServer(admin.NewHandler(pages)), admin.NewInspector(pages)
	return p
}

// newWriter returns what takes addresses from the configured networks.
func newWriter(o Options) *state.Writer {
	w := state.NewWriter()
	if o.Mesh.Domain != "" { // else it is the zero value
		w.BeginWith(o.Mesh)
	}
	if !o.Config.AutoPrefix4.IsValid() && !o.Config.AutoPrefix6.IsValid() { // not a Config of FromEnv, as in tests
		return w
	}
	r, err := state.NewAutoRange(o.Config.AutoPrefix4, o.Config.AutoPrefix6)
	if err != nil {
		o.Log.Error("hosts get addresses from the default networks", "error", err)
		return w
	}
	w.AllocateFrom(r)
	return w
}

// debugHosts returns the names by which clients may ask for the debug pages.
func debugHosts(o Options) []string {
	var names []string
	if o.Cluster != nil {
		for _, name := range o.Cluster.o.Names.ServerNames() {
			names = append(names, name, name+"."+o.Mesh.Domain)
		}
	}
	for _, name := range o.DebugHosts {
		names = append(names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	return names
}

// newHTTPServer returns a server for answers of any size, whose clients keep neither connections
// nor memory for long.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      5 * time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

// streamsPerAddress converts a setting, in which 0 is no limit.
func streamsPerAddress(c config.Config) int {
	if c.StreamsPerAddress == 0 {
		return -1
	}
	return c.StreamsPerAddress
}

const (
	// stopGrace is how long HTTP requests may take to end when the process does.
	stopGrace = 3 * time.Second
	// handoverGrace is how long the control plane may take to hand its proxies over to others. It
	// is shorter than the 30 s that Kubernetes gives a Pod.
	handoverGrace = 10 * time.Second
)

// Run runs all stages until ctx ends or one fails.
func (p *Pipeline) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		p.awaitFirstState(ctx)
		return p.server.Serve(p.o.XDS)
	})
	if p.o.SecureXDS != nil {
		g.Go(func() error {
			p.awaitFirstState(ctx)
			return p.server.Serve(p.o.SecureXDS)
		})
	}
	g.Go(func() error { return ignoreClosed(p.monitor.Serve(p.o.Monitoring)) })
	p.serveLogLevels(ctx, g)
	g.Go(func() error { return p.loop.Run(ctx) })
	g.Go(func() error { p.past.recorder.Run(ctx); return nil })
	g.Go(func() error { p.registry.secrets.run(ctx); return nil })
	if p.o.Cluster != nil {
		g.Go(func() error { return p.o.Cluster.run(ctx, p) })
	}
	if p.o.Cluster == nil || !p.o.Cluster.o.Writes {
		g.Go(func() error { p.keys.run(ctx, p.keys.into(p.loop.Sink(ctx))); return nil })
	}
	g.Go(func() error { return p.o.Source.Run(ctx, p.loop.Sink(ctx)) })
	g.Go(func() error {
		<-ctx.Done()
		p.handOver(context.WithoutCancel(ctx))
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		return p.monitor.Shutdown(stop)
	})
	return g.Wait()
}

// handOver has the proxies connect to other replicas.
func (p *Pipeline) handOver(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, handoverGrace)
	defer cancel()
	p.server.Stop(ctx)
}

// awaitFirstState delays serving. A proxy that connects before the first state waits in the
// listener's queue, instead of being refused and retrying after a backoff.
func (p *Pipeline) awaitFirstState(ctx context.Context) {
	select {
	case <-p.Opened():
	case <-ctx.Done():
	}
}

// ignoreClosed drops the error of an HTTP server that was stopped, even before it began to serve.
func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// conflicts passes on what connected proxies see wrong, and reports whether that has changed.
func (p *Pipeline) conflicts(appeared, fixed []source.Problem) bool {
	if len(appeared)+len(fixed) == 0 {
		return false
	}
	p.problemStore.Conflicts(appeared, fixed)
	return true
}

// batchApplied returns what is called with the changes of each compiled batch.
func (p *Pipeline) batchApplied() func([]source.Change) {
	if p.o.Cluster == nil {
		return nil
	}
	return p.o.Cluster.applied
}

func (p *Pipeline) problemsChanged(appeared, mended []source.Problem) {
	p.meters.problems(appeared, mended)
	if p.o.Cluster != nil {
		p.o.Cluster.tracker.Problems(appeared, mended)
	}
	if p.o.Problems != nil {
		p.o.Problems(appeared, mended)
	}
}

func (p *Pipeline) refusedEndpoint(e model.Endpoint, err error) {
	p.metrics.Drops.WithLabelValues("invalid_endpoint").Inc()
	p.o.Log.Warn("an endpoint is left out", "address", e.Address, "port", e.Port, "error", err)
}

func (p *Pipeline) refusedResource(name string, err error) {
	p.metrics.Drops.WithLabelValues("invalid_resource").Inc()
	p.o.Log.Error("a resource that Envoy would refuse is not served", "resource", name, "error", err)
}

func (p *Pipeline) refusedPatch(r compile.RefusedPatch) {
	p.metrics.Drops.WithLabelValues("invalid_patch").Inc()
	p.o.Log.Warn("a patch cannot be applied to a resource, and is left out there",
		"object", r.Owner, "patch", r.Index, "resource", r.Resource, "error", r.Err)
}

// Pushes delivers a record of each generation once every proxy has acknowledged it.
func (p *Pipeline) Pushes() <-chan fanout.Record { return p.hub.Finished() }

// Problems returns the present problems.
func (p *Pipeline) Problems() []source.Problem { return p.problemStore.Problems() }

// Clients returns the connected proxies.
func (p *Pipeline) Clients() []serve.Client { return p.server.Clients() }

// Snapshot returns the present generation, nil before the first.
func (p *Pipeline) Snapshot() *state.Snapshot { return p.snapshot.Load() }

// Settle waits until every connected proxy has acknowledged everything that the source delivered
// before.
func (p *Pipeline) Settle(ctx context.Context) error {
	generation, err := p.loop.Flush(ctx)
	if err != nil {
		return err
	}
	return p.hub.Settle(ctx, generation)
}

// Settled calls Settle. It returns the proxies that were connected all the time ("pod.namespace"):
// only these are known to have the configuration.
func (p *Pipeline) Settled(ctx context.Context) (proxies []string, err error) {
	before := map[string]bool{}
	for _, c := range p.Clients() {
		before[c.ConnectionID] = true
	}
	if err := p.Settle(ctx); err != nil {
		return nil, err
	}
	for _, c := range p.Clients() {
		if before[c.ConnectionID] {
			proxies = append(proxies, c.Node.Name)
		}
	}
	return proxies, nil
}

// Opened is closed with the first state. From then on proxies are admitted.
func (p *Pipeline) Opened() <-chan struct{} { return p.registry.firstState }
