package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	typedcertificatesv1 "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
)

// ExternalCA is an authority elsewhere: signers of Kubernetes.
type ExternalCA struct {
	// Signer signs for proxies that name no signer, and Domain stands before the names of the
	// others. One of both may be empty.
	Signer, Domain string
	// ServingSigner signs the certificate of the secure xDS port.
	ServingSigner string
	// RootFile has roots in PEM, if it exists.
	RootFile string
}

// externalAuthority is the authority elsewhere of a cluster, and what is known of its roots.
type externalAuthority struct {
	o            ExternalCA
	holder       *ca.Holder
	registration *ca.Registration
	serving      *ca.ExternalServing // nil if the operator has a certificate (--tls-cert)
	cluster      []byte              // the roots of the cluster's own certificates
	log          *slog.Logger
	failure      string // what run has logged last; only its goroutine uses it

	mu   sync.Mutex
	file []byte // the last valid content of RootFile
	mesh []model.CACertificate
}

func newExternal(o ClusterOptions, config *rest.Config, h *ca.Holder) (*externalAuthority, error) {
	client, err := typedcertificatesv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	e := &externalAuthority{o: *o.External, holder: h, cluster: config.CAData, log: o.Log}
	e.registration = ca.NewRegistration(ca.RegistrationOptions{
		Client: client.CertificateSigningRequests(), Signer: e.o.Signer, Domain: e.o.Domain, Roots: e.rootsOf,
		Log: o.Log, Now: o.Now,
	})
	if o.Files.Certificate == "" {
		e.serving = ca.NewExternalServing(e.registration, e.o.ServingSigner, o.Names.ServerNames())
	}
	return e, nil
}

// rereadInterval is how often the roots are looked at.
const rereadInterval = 5 * time.Second

// run follows the roots and renews the serving certificate until ctx ends. It begins once the mesh
// configuration is known.
func (e *externalAuthority) run(ctx context.Context, p *Pipeline) {
	p.awaitFirstState(ctx)
	e.refresh(p.meshConfig())
	g, ctx := errgroup.WithContext(ctx)
	if e.serving != nil {
		g.Go(func() error { e.serving.Run(ctx); return nil })
	}
	g.Go(func() error {
		ticker := time.NewTicker(rereadInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				e.refresh(p.meshConfig())
			}
		}
	})
	_ = g.Wait() // none of them fails
}

// refresh takes in the roots of the file and the mesh configuration. A file that cannot be read
// changes nothing. Each failure is logged once.
func (e *externalAuthority) refresh(mesh model.MeshConfig) {
	failure := ""
	if err := e.read(mesh); err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != e.failure {
		e.log.Error("the roots of the signers are not known, or not all", "error", failure)
	}
	e.failure = failure
}

func (e *externalAuthority) read(mesh model.MeshConfig) error {
	unread := e.readFile()
	e.mu.Lock()
	e.mesh = mesh.CACertificates
	e.mu.Unlock()
	all := e.bundle()
	authority, err := ca.Trusting(all)
	if err != nil {
		return errors.Join(unread, fmt.Errorf("%w; want them in ./%s, or in caCertificates of the mesh configuration",
			err, e.o.RootFile))
	}
	if last, _, err := e.holder.Get(); err != nil || !bytes.Equal(last.Bundle(), authority.Bundle()) {
		e.holder.Set(authority)
		e.log.Info("certificates are signed elsewhere", "signer", e.o.Signer, "domain", e.o.Domain)
	}
	return unread
}

// readFile reads RootFile, which need not exist.
func (e *externalAuthority) readFile() error {
	text, err := os.ReadFile(e.o.RootFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		_, err = ca.Trusting(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w; the last valid roots stay", e.o.RootFile, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.file = text
	return nil
}

// rootsOf returns the roots of a signer: those of the file and those of the mesh configuration for
// it. If there are none and no Domain is set, it returns the cluster's roots, since the signer is
// then taken for one of Kubernetes itself.
func (e *externalAuthority) rootsOf(signer string) []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	parts := [][]byte{e.file}
	for _, c := range e.mesh {
		if len(c.Signers) == 0 || slices.Contains(c.Signers, signer) {
			parts = append(parts, []byte(c.PEM))
		}
	}
	if all := ca.JoinRoots(parts...); len(all) > 0 || e.o.Domain != "" {
		return all
	}
	return e.cluster
}

// bundle returns the roots of all signers.
func (e *externalAuthority) bundle() []byte {
	parts := [][]byte{e.rootsOf(e.o.Signer)}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.mesh {
		parts = append(parts, []byte(c.PEM))
	}
	return ca.JoinRoots(parts...)
}
