package up

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/link"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// plane is the control plane of a local mesh: app.Pipeline in this process, or a separate process.
type plane interface {
	// Run runs the control plane and the mesh, whose pods are its source.
	Run(ctx context.Context) error
	// Settled is local.Options.Settled.
	Settled(ctx context.Context) (proxies []string, err error)
	Pushes() <-chan fanout.Record
	Problems() []source.Problem
}

// separatePlane is this process's side of a separate control plane.
type separatePlane struct {
	*link.Relay
	mesh            *mesh
	xds, monitoring *net.TCPListener
	pushes          chan fanout.Record // dropped when full
	problems        atomic.Pointer[[]source.Problem]
}

func newSeparatePlane(m *mesh) (*separatePlane, error) {
	p := &separatePlane{mesh: m, pushes: make(chan fanout.Record, noticeBuffer)}
	var ok [2]bool
	p.xds, ok[0] = m.xds.(*net.TCPListener)
	p.monitoring, ok[1] = m.monitoring.(*net.TCPListener)
	if ok != [2]bool{true, true} {
		return nil, errors.New("a listener is not one for TCP, and cannot be handed to another process")
	}
	p.problems.Store(&[]source.Problem{})
	p.Relay = link.NewRelay(m.tokens, p.receiveStatus, m.log)
	return p, nil
}

// companion returns the process for the runtime to run.
func (p *separatePlane) companion(self string) *local.ControlPlaneProcess {
	return &local.ControlPlaneProcess{
		Argv: []string{
			self, "control-plane", "--log-level", p.mesh.o.log.Level, "--log-format", p.mesh.o.log.Format,
		},
		Environ: os.Environ(), Files: p.files, Monitoring: netip.MustParseAddrPort(p.monitoring.Addr().String()),
	}
}

// files returns the inherited files in the order of their descriptors.
func (p *separatePlane) files() (files []*os.File, err error) {
	for _, open := range []func() (*os.File, error){p.Connect, p.xds.File, p.monitoring.File} {
		f, err := open()
		if err != nil {
			for _, f := range files {
				_ = f.Close()
			}
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

// Run implements plane.
func (p *separatePlane) Run(ctx context.Context) error {
	defer p.Close()
	err := p.mesh.runtime.Run(ctx, p.Deliver)
	return errors.Join(err, p.xds.Close(), p.monitoring.Close())
}

// receiveStatus takes a message of the process. Problems in it replace all earlier ones, those of
// an earlier process included.
func (p *separatePlane) receiveStatus(message json.RawMessage) {
	var n statusMessage
	if err := json.Unmarshal(message, &n); err != nil {
		p.mesh.log.Error("news of the control plane that cannot be read", "error", err)
		return
	}
	if n.Push != nil {
		offer(p.pushes, *n.Push)
	}
	if n.Problems != nil {
		before := *p.problems.Swap(n.Problems)
		if appeared, mended := subtract(*n.Problems, before), subtract(before,
			*n.Problems); len(appeared)+len(mended) > 0 {
			p.mesh.problemsChanged(appeared, mended)
		}
	}
}

// subtract returns the problems that are not among others.
func subtract(all, others []source.Problem) []source.Problem {
	return slices.DeleteFunc(slices.Clone(all), func(p source.Problem) bool { return slices.Contains(others, p) })
}

// Pushes implements plane.
func (p *separatePlane) Pushes() <-chan fanout.Record { return p.pushes }

// Problems implements plane.
func (p *separatePlane) Problems() []source.Problem { return *p.problems.Load() }
