package up

import (
	"context"
	"net"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/process"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/link"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// The descriptors that a separate control plane inherits from the mesh. The mesh keeps the
// listeners open, so that the ports stay its own while the process restarts, and connections made
// meanwhile wait.
const (
	linkDescriptor = 3 + iota
	xdsDescriptor
	monitoringDescriptor
)

// statusMessage is what a separate control plane sends to the mesh for its screen.
type statusMessage struct {
	Push *fanout.Record `json:"push,omitempty"`
	// Problems are all present problems, or nil if the message is about something else.
	Problems *[]source.Problem `json:"problems,omitempty"`
}

// ControlPlane returns the hidden command that up --separate-control-plane runs.
func ControlPlane() *cobra.Command {
	var logs process.LogFlags
	cmd := &cobra.Command{
		Use:    "control-plane",
		Short:  "What lateen up --separate-control-plane runs; it inherits its sockets",
		Hidden: true,
		Args:   command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, settings, err := logs.Settings()
			if err != nil {
				return err
			}
			xds, monitoring, err := inheritedListeners()
			if err != nil {
				return err
			}
			tokens := local.NewTokens()
			line, err := link.Open(os.NewFile(linkDescriptor, "link"), tokens)
			if err != nil {
				return process.NotInherited(err, "lateen up")
			}
			changed := make(chan struct{}, 1) // latest-value: the receiver reads the present problems
			pipeline := app.New(app.Options{
				Source: inMesh(line), Selected: true, Workers: true, Config: settings, Mesh: model.DefaultMesh(),
				XDS: xds, Monitoring: monitoring,
				Authenticator: app.TokenAuthenticator{Lookup: tokens.Account},
				ProxyDrain:    local.ListenerDrain, Log: log, Version: build.Version, Pods: true,
				MemoryTight: process.MemoryTight(log),
				Problems:    func(_, _ []source.Problem) { offer(changed, struct{}{}) },
			})
			line.Settled = pipeline.Settled
			log.Info("serving", "xds", xds.Addr().String(), "monitoring", monitoring.Addr().String())
			g, ctx := errgroup.WithContext(cmd.Context())
			g.Go(func() error { return pipeline.Run(ctx) })
			g.Go(func() error { sendStatus(ctx, line, pipeline, changed); return nil })
			return g.Wait()
		},
	}
	logs.Bind(cmd)
	return cmd
}

func inheritedListeners() (xds, monitoring net.Listener, err error) {
	if xds, err = inheritedListener(xdsDescriptor, "xds"); err != nil {
		return nil, nil, err
	}
	if monitoring, err = inheritedListener(monitoringDescriptor, "monitoring"); err != nil {
		_ = xds.Close()
		return nil, nil, err
	}
	return xds, monitoring, nil
}

func inheritedListener(descriptor uintptr, name string) (net.Listener, error) {
	f := os.NewFile(descriptor, name)
	l, err := net.FileListener(f)
	_ = f.Close() // the listener has its own descriptor
	if err != nil {
		return nil, process.NotInherited(err, "lateen up")
	}
	return l, nil
}

// sendStatus sends what the mesh's screen shows, until ctx ends. It sends problems once the first
// state is loaded: before that they are incomplete.
func sendStatus(ctx context.Context, line *link.Source, p *app.Pipeline, changed <-chan struct{}) {
	select {
	case <-ctx.Done():
		return
	case <-p.Opened():
	}
	standing := p.Problems()
	n := statusMessage{Problems: &standing}
	for line.Send(n) == nil {
		select {
		case <-ctx.Done():
			return
		case r := <-p.Pushes():
			n = statusMessage{Push: &r}
		case <-changed:
			standing := p.Problems()
			n = statusMessage{Problems: &standing}
		}
	}
}
