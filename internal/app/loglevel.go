package app

import (
	"context"
	"log/slog"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/admin"
)

// LogControl lets callers on this machine change what is logged.
type LogControl struct {
	// Listener is where they ask, nil for nowhere. The pipeline closes it.
	Listener net.Listener
	Level    *slog.LevelVar
}

// serveLogLevels answers istioctl admin log until ctx ends.
func (p *Pipeline) serveLogLevels(ctx context.Context, g *errgroup.Group) {
	if p.o.LogControl.Listener == nil {
		return
	}
	server := newHTTPServer(admin.NewLogHandler(p.o.LogControl.Level, debugHosts(p.o)))
	g.Go(func() error { return ignoreClosed(server.Serve(p.o.LogControl.Listener)) })
	g.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
}
