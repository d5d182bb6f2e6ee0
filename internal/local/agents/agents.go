package agents

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lateen-mesh/lateen/internal/agent/certs"
	"github.com/lateen-mesh/lateen/internal/agent/wire"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

const (
	// ttl is how long a certificate is valid. It is renewed after half of that.
	ttl = 24 * time.Hour
	// check is how often an agent looks whether it has to renew: timers stand still while a laptop
	// sleeps.
	check = time.Minute
)

// Authority is the certificate authority of a local mesh.
type Authority struct {
	authority *ca.Authority
	dir       string // of the agents' files; its path is short, as those of sockets must be
	agents    atomic.Int64
	log       *slog.Logger
}

// New makes an authority with a new root.
func New(log *slog.Logger) (*Authority, error) {
	authority, err := ca.NewSelfSigned(time.Now())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lateen-") // for this user alone
	return &Authority{authority: authority, dir: dir, log: log}, err
}

// Close removes all keys.
func (a *Authority) Close() error { return os.RemoveAll(a.dir) }

// Agent serves one proxy its certificate.
type Agent struct {
	authority *Authority
	id        ca.Identity
	dir       string
	due       time.Time
	manager   *certs.Manager
	listener  net.Listener
}

// Agent returns an agent that has a certificate for a workload and listens. It ends with Run or
// with Close.
func (a *Authority) Agent(id ca.Identity) (*Agent, error) {
	g := &Agent{authority: a, id: id, dir: filepath.Join(a.dir, strconv.FormatInt(a.agents.Add(1), 10))}
	if err := os.Mkdir(g.dir, 0o700); err != nil {
		return nil, err
	}
	err := g.issue(time.Now())
	if err == nil {
		g.manager, err = certs.New(certs.Options{
			Grace: 0.5, Clock: certs.RealClock(), Log: a.log,
			Mounted: certs.Files{Chain: g.file("chain"), Key: g.file("key"), Root: g.file("root")},
		})
	}
	if err == nil {
		g.listener, err = wire.Listen(g.Socket())
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(g.dir))
	}
	return g, nil
}

// Socket is the path at which the agent serves SDS.
func (g *Agent) Socket() string { return filepath.Join(g.dir, "sds") }

func (g *Agent) file(name string) string { return filepath.Join(g.dir, name+".pem") }

// Close ends an agent that was not run. There may be none.
func (g *Agent) Close() error {
	if g == nil {
		return nil
	}
	return errors.Join(g.listener.Close(), os.RemoveAll(g.dir))
}

// Run serves and renews the certificate until ctx ends, and then removes its key.
func (g *Agent) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	var served, followed error
	wg.Go(func() { served = g.manager.Serve(ctx, g.listener) })
	wg.Go(func() { followed = g.manager.Run(ctx) })
	g.renew(ctx)
	wg.Wait()
	return errors.Join(served, followed, os.RemoveAll(g.dir))
}

// renew issues certificates in time. What fails is tried again.
func (g *Agent) renew(ctx context.Context) {
	t := time.NewTicker(check)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			if now.Round(0).Before(g.due) {
				continue
			}
			if err := g.issue(now); err != nil {
				g.authority.log.Error("a proxy has no new certificate", "identity", g.id.URI(), "error", err)
			}
		}
	}
}

// issue writes a key and its certificate, from where the manager takes them.
func (g *Agent) issue(now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return err
	}
	chain, err := g.authority.authority.Sign(encode("CERTIFICATE REQUEST", request), ca.Request{
		Identity: g.id, TTL: ttl, Now: now,
	})
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	g.due = now.Round(0).Add(ttl / 2)
	return errors.Join(
		g.write("key", encode("PRIVATE KEY", encoded)),
		g.write("chain", []byte(strings.Join(chain, ""))),
		g.write("root", g.authority.authority.Bundle()),
	)
}

// write replaces a file in one step.
func (g *Agent) write(name string, content []byte) error {
	next := g.file(name) + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, g.file(name))
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
