package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/lateen-mesh/lateen/internal/agent/certs"
	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

const (
	// ttl, grace and jitter are the agent's defaults in a cluster: how long a certificate lives,
	// and which part of that is left when it is renewed.
	ttl           = 24 * time.Hour
	grace, jitter = 0.5, 0.01
)

// Agent serves one proxy its certificate. The key is in memory alone.
type Agent struct {
	authority *Authority
	token     string
	dir       string
	ca        *grpc.ClientConn
	manager   *certs.Manager
	listener  net.Listener
}

// Agent returns an agent for a workload, which the token of its Pod proves to the authority. It
// listens, and asks for a certificate in Run. It ends with Run or with Close.
func (a *Authority) Agent(id ca.Identity, token string) (*Agent, error) {
	g := &Agent{authority: a, token: token, dir: filepath.Join(a.dir, strconv.FormatInt(a.agents.Add(1), 10))}
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		return nil, err
	}
	if err := g.open(id); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	a.callers.add(token, id)
	return g, nil
}

func (g *Agent) open(id ca.Identity) (err error) {
	tokenFile := filepath.Join(g.dir, "token")
	if err := os.WriteFile(tokenFile, []byte(g.token), 0o600); err != nil {
		return fmt.Errorf("the token of a proxy's agent: %w", err)
	}
	g.ca, err = wire.Upstream{
		Address: g.authority.address, ServerName: serverName, RootFile: g.authority.rootFile(), TokenFile: tokenFile,
	}.Dial()
	if err != nil {
		return err
	}
	g.manager, err = certs.New(certs.Options{
		CA:      g.ca,
		Request: certs.Request{Identity: id.URI(), TTL: ttl},
		Grace:   grace, Jitter: jitter,
		Clock: certs.RealClock(), Log: g.authority.log,
	})
	if err != nil {
		return err
	}
	g.listener, err = wire.Listen(g.Socket())
	return err
}

// Socket is the path at which the agent serves SDS.
func (g *Agent) Socket() string { return filepath.Join(g.dir, "sds") }

// Close ends an agent that was not run. There may be none.
func (g *Agent) Close() error {
	if g == nil {
		return nil
	}
	var err error
	if g.listener != nil {
		err = g.listener.Close()
	}
	return errors.Join(err, g.forget())
}

// forget takes away what proves the workload.
func (g *Agent) forget() error {
	g.authority.callers.remove(g.token)
	var err error
	if g.ca != nil {
		err = g.ca.Close()
	}
	return errors.Join(err, os.RemoveAll(g.dir))
}

// Run asks for the certificate, serves and renews it until ctx ends.
func (g *Agent) Run(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return g.manager.Serve(ctx, g.listener) })
	both.Go(func() error { return g.manager.Run(ctx) })
	return errors.Join(both.Wait(), g.forget())
}
