package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/lateen-mesh/lateen/internal/agent/bootstrap"
	"github.com/lateen-mesh/lateen/internal/agent/envoy"
	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
)

// Options are what an agent needs.
type Options struct {
	Settings settings.Settings
	Stdout   io.Writer // Envoy's
	Stderr   io.Writer
	Log      *slog.Logger
}

// service is a part of the agent that serves until its context ends. One that ends earlier ends the
// agent: the kubelet starts the container anew.
type service struct {
	name string
	run  func(ctx context.Context) error
}

// Run runs the agent until Envoy has ended. The end of the context drains Envoy; what Envoy needs
// serves on until it has ended.
func Run(ctx context.Context, o Options) error {
	for _, notice := range o.Settings.Notices {
		o.Log.Warn(notice)
	}
	o.Settings.Envoy.AdminName = rand.Text()
	if err := writeBootstrap(o.Settings); err != nil {
		return err
	}
	supervisor := envoy.New(supervision(o))
	b := &builder{Options: o, supervisor: supervisor, registry: &metrics.Registry{}}
	metrics.Process(b.registry, "istio_agent_")
	if err := b.build(ctx.Done()); err != nil {
		return err
	}
	return runWith(ctx, b.services, supervisor)
}

// runWith runs Envoy and the services beside it.
func runWith(ctx context.Context, all []service, supervisor *envoy.Supervisor) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	failures := make(chan error, len(all))
	for _, s := range all {
		wg.Go(func() {
			err := s.run(serving)
			if serving.Err() != nil {
				return
			}
			if err == nil {
				err = errors.New("nobody told it to")
			}
			failures <- fmt.Errorf("%s ended: %w", s.name, err)
			supervisor.Quit()
		})
	}
	err := supervisor.Run(ctx)
	stop()
	wg.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}

func supervision(o Options) envoy.Options {
	e := o.Settings.Envoy
	return envoy.Options{
		Binary:           e.Binary,
		Args:             envoy.Arguments(o.Settings),
		Environ:          e.Environ,
		Stdout:           o.Stdout,
		Stderr:           o.Stderr,
		Admin:            admin(o.Settings),
		Log:              o.Log,
		InboundOnly:      o.Settings.Node.Type == settings.Sidecar,
		TerminationDrain: e.TerminationDrain,
		UntilIdle:        e.ExitOnZeroConnections,
		MinimumDrain:     e.MinimumDrain,
		OwnPorts:         []uint16{e.StatusPort, e.MetricsPort},
	}
}

// writeBootstrap writes Envoy's configuration, and makes the directories of its sockets. Another
// user may not read the file: an override may hold what is secret.
func writeBootstrap(s settings.Settings) error {
	config, err := bootstrap.Config(s)
	if err != nil {
		return err
	}
	for _, dir := range []string{s.Envoy.ConfigDir, filepath.Dir(s.Envoy.SDSSocket)} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("directory of Envoy: %w", err)
		}
	}
	old, err := filepath.Glob(filepath.Join(s.Envoy.ConfigDir, settings.AdminPrefix+"*"))
	if err != nil {
		return fmt.Errorf("sockets of Envoy: %w", err)
	}
	for _, name := range old { // of the last start
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("socket of Envoy: %w", err)
		}
	}
	if err := os.WriteFile(s.Envoy.Bootstrap(), config, 0o600); err != nil {
		return fmt.Errorf("bootstrap of Envoy: %w", err)
	}
	return nil
}
