package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/agents"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/source/dir"
)

// meshFile is the file of the manifests, but for the hand-written Envoys.
const meshFile = "mesh.yaml"

// startTimeout is how long the pods of the mesh may take until all are ready.
const startTimeout = 2 * time.Minute

// listenerDrain is how long replaced listeners serve their connections. Between two settings the
// mesh waits for it.
const listenerDrain = time.Second

// mesh is a mesh as lateen up runs it, in this process.
type mesh struct {
	o   Options
	dir string // of the manifests
	// manifests is what meshFile has, and workloads are those whose pods have to be ready.
	manifests string
	workloads []string
	runtime   *local.Runtime
	pipeline  *app.Pipeline
	agents    *agents.Authority
	closing   []func() error // of what is open before the mesh runs
	ended     chan error
	cancel    context.CancelFunc
}

// startMesh runs the mesh, and returns when all pods are ready and all proxies in sync.
func startMesh(ctx context.Context, o Options) (*mesh, error) {
	return startMeshOf(ctx, o, o.manifests(), "server", "client", "gateway")
}

// startMeshOf does the same with manifests of the caller's own.
func startMeshOf(ctx context.Context, o Options, manifests string, workloads ...string) (*mesh, error) {
	m := &mesh{
		o: o, dir: filepath.Join(o.StateDir, "manifests"), manifests: manifests, workloads: workloads,
		ended: make(chan error, 1),
	}
	if err := m.assemble(); err != nil {
		for _, f := range m.closing {
			err = errors.Join(err, f())
		}
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ctx may end in the middle of a measurement
	m.cancel = cancel
	go func() { m.ended <- m.pipeline.Run(run) }()
	if err := m.await(ctx); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return m, nil
}

// assemble puts the mesh together:
//
//	source/dir ─► local (pods, endpoints) ─► control plane ─► Envoys, which local has started
func (m *mesh) assemble() (err error) {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	if err := m.write(meshFile, m.manifests); err != nil {
		return err
	}
	if m.agents, err = agents.New(m.o.Log); err != nil {
		return err
	}
	m.closing = append(m.closing, m.agents.Close)
	var listeners [2]net.Listener
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		m.closing = append(m.closing, listeners[i].Close)
	}
	tokens := local.NewTokens()
	manifests := dir.New(dir.Options{Path: m.dir, Logger: m.o.Log})
	m.runtime, err = local.New(manifests, local.Options{
		Envoy: m.o.Envoy, Self: m.o.Self, StateDir: filepath.Join(m.o.StateDir, "pods"), WorkDir: m.dir,
		Environ: os.Environ(), XDS: netip.MustParseAddrPort(listeners[0].Addr().String()),
		IstioVersion: m.o.IstioVersion, Tokens: tokens, Agents: m.agents, FreePorts: true,
		Metrics: m.o.Telemetry || m.o.knobs, ListenerDrain: listenerDrain,
		Settled: func(ctx context.Context) ([]string, error) { return m.pipeline.Settled(ctx) },
	})
	if err != nil {
		return err
	}
	settings, err := config.FromEnv(os.LookupEnv)
	if err != nil {
		return err
	}
	m.pipeline = app.New(app.Options{
		Source: m.runtime, Config: settings, Mesh: model.DefaultMesh(), XDS: listeners[0], Monitoring: listeners[1],
		Authenticator: app.TokenAuthenticator{Lookup: tokens.Account},
		ProxyDrain:    listenerDrain, Log: m.o.Log, Version: m.o.Version, Pods: true,
	})
	m.closing = []func() error{m.agents.Close} // the pipeline closes its listeners
	return nil
}

func (m *mesh) write(file, manifests string) error {
	return os.WriteFile(filepath.Join(m.dir, file), []byte(manifests), 0o600)
}

// await returns when all pods are ready, and all proxies have accepted everything.
func (m *mesh) await(ctx context.Context, pods ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	pods = append(pods, m.workloads...)
	has := func(s *local.Snapshot) bool {
		runs := func(workload string) bool {
			return slices.ContainsFunc(s.Pods, func(p local.PodStatus) bool { return p.Workload == workload })
		}
		return s.Ready() && !slices.ContainsFunc(pods, func(workload string) bool { return !runs(workload) })
	}
	s, err := m.runtime.Await(ctx, has)
	if err != nil {
		var why []string
		for _, p := range s.Pods {
			if !p.Ready {
				why = append(why, p.Name+": "+p.Why)
			}
		}
		return fmt.Errorf("the mesh is not ready after %v: %s; its logs are in %s: %w", startTimeout,
			strings.Join(why, "; "), m.o.StateDir, err)
	}
	return m.runtime.Settle(ctx)
}

// stop ends everything that was started.
func (m *mesh) stop() error {
	m.cancel()
	err := <-m.ended
	for _, f := range m.closing {
		err = errors.Join(err, f())
	}
	return err
}

// problems returns what the control plane says of the manifests, which should be nothing.
func (m *mesh) problems() (all []string) {
	for _, p := range m.pipeline.Problems() {
		all = append(all, fmt.Sprintf("%s %s: %s", p.Object, p.Path, p.Message))
	}
	return all
}

// pod returns the pod of a workload. The mesh is ready, so there is one.
func (m *mesh) pod(workload string) local.PodStatus {
	for _, p := range m.runtime.Snapshot().Pods {
		if p.Workload == workload {
			return p
		}
	}
	return local.PodStatus{}
}

// process returns a process of a pod: an Envoy's name is "istio-proxy", that of other programs
// "app".
func (m *mesh) process(workload, name string) (measure.PID, error) {
	for _, p := range m.pod(workload).Processes {
		if p.Name == name && p.PID != 0 {
			return measure.PID(p.PID), nil
		}
	}
	return 0, fmt.Errorf("pod %s has no process %s any more; its logs are in %s", workload, name, m.o.StateDir)
}
