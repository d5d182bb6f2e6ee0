package perf

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/cli/build"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/process"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/local/link"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
)

// perfServer is the command that runs Lateen for lateen perf.
const perfServer = "perf-control-plane"

// ControlPlane returns the hidden command of the control plane that is measured.
func ControlPlane() *cobra.Command {
	var listen process.ListenFlags
	var logs process.LogFlags
	cmd := &cobra.Command{
		Use:    perfServer,
		Short:  "The control plane that lateen perf measures; it inherits where its objects come from",
		Hidden: true,
		Args:   command.Arguments(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, settings, err := logs.Settings()
			if err != nil {
				return err
			}
			line, err := link.Open(os.NewFile(controlplane.LinkDescriptor, "link"), local.NewTokens())
			if err != nil {
				return process.NotInherited(err, "lateen perf")
			}
			xds, monitoring, err := listen.Listen()
			if err != nil {
				return err
			}
			options := app.Options{
				Source:      line,
				Config:      settings,
				Mesh:        model.DefaultMesh(),
				XDS:         xds,
				Monitoring:  monitoring,
				ProxyDrain:  process.DefaultDrain,
				Log:         log,
				Version:     build.Version,
				MemoryTight: process.MemoryTight(log),
			}
			if setting, ok := os.LookupEnv(controlplane.SecurityVariable); ok {
				if err := secureListener(&options, setting); err != nil {
					return err
				}
			}
			pipeline := app.New(options)
			line.Settled = pipeline.Settled
			return servePerf(cmd.Context(), line, pipeline, controlplane.ChildStatus{
				XDS: xds.Addr().String(), Monitoring: monitoring.Addr().String(),
			})
		},
	}
	listen.Bind(cmd)
	logs.Bind(cmd)
	return cmd
}

// secureListener has a control plane serve TLS, to sidecars that have tokens.
func secureListener(o *app.Options, setting string) error {
	security, err := controlplane.ReadSecurity(setting)
	if err != nil {
		return err
	}
	config, err := security.Server()
	if err != nil {
		return err
	}
	o.XDS = tls.NewListener(o.XDS, config)
	o.Authenticator = app.TokenAuthenticator{Lookup: security.Account}
	return nil
}

// servePerf runs the pipeline until the link ends. Over the link it sends its addresses, and then
// that it accepts proxies.
func servePerf(ctx context.Context, line *link.Source, pipeline *app.Pipeline, news controlplane.ChildStatus) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	news.Profiles = listener.Addr().String()
	profiles := &http.Server{ // without WriteTimeout: a profile takes as long as it is asked to
		Handler:           controlplane.Profiles(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := pipeline.Run(ctx); !errors.Is(err, link.ErrEnded) {
			return err
		}
		return nil // the parent has ended
	})
	g.Go(func() error {
		if err := profiles.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	g.Go(func() error { <-ctx.Done(); return profiles.Close() })
	g.Go(func() error { sendPerfStatus(ctx, line, pipeline, news); return nil })
	return g.Wait()
}

// sendPerfStatus sends the child's addresses, and then that it accepts proxies. The pipeline ends
// when the link is broken.
func sendPerfStatus(ctx context.Context, line *link.Source, pipeline *app.Pipeline, news controlplane.ChildStatus) {
	if line.Send(news) != nil {
		return
	}
	select {
	case <-pipeline.Opened():
		news.Open = true
		_ = line.Send(news)
	case <-ctx.Done():
	}
}
