package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/lateen-mesh/lateen/internal/agent/certs"
	"github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/agent/wire"
)

// defaultSocket is the name of the agent's own SDS socket. Another one is served by somebody else.
const defaultSocket = "/socket"

// certificates asks for certificates and serves them to Envoy. It returns how the proxy proves
// itself to the control plane without a token: nil where it has one.
func (b *builder) certificates() (func() *tls.Certificate, error) {
	s := b.Settings
	if wire.IsServed(s.Envoy.SDSSocket) {
		b.Log.Info("certificates are served by somebody else", "socket", s.Envoy.SDSSocket)
		return nil, nil
	}
	if !strings.HasSuffix(s.Envoy.SDSSocket, defaultSocket) {
		return nil, fmt.Errorf("WORKLOAD_IDENTITY_SOCKET_FILE: nobody serves %s", s.Envoy.SDSSocket)
	}
	conn, err := b.authority()
	if err != nil {
		return nil, err
	}
	manager, err := certs.New(certs.Options{
		CA: conn,
		Request: certs.Request{
			Identity: identity(s.Node),
			TTL:      s.CA.TTL,
			RSABits:  s.CA.RSABits,
			PKCS8:    s.CA.PKCS8,
			Signer:   s.CA.Signer,
		},
		Grace:       s.CA.Grace,
		Jitter:      s.CA.Jitter,
		RootFile:    s.CA.MeshRoots,
		RevokedFile: s.CA.RevokedFile,
		Mounted:     certs.Files(s.CA.Mounted),
		Output:      certs.Files(s.CA.Output),
		Kept:        keptCertificate(s),
		Clock:       certs.RealClock(),
		Log:         b.Log,
	})
	if err != nil {
		return nil, err
	}
	l, err := wire.Listen(s.Envoy.SDSSocket)
	if err != nil {
		return nil, err
	}
	b.countCertificates(manager)
	b.add("certificates", func(ctx context.Context) error {
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return manager.Serve(ctx, l) })
		both.Go(func() error { return manager.Run(ctx) })
		err := both.Wait()
		if conn != nil {
			err = errors.Join(err, conn.Close())
		}
		return err
	})
	if s.CA.Mounted != (settings.CertificateFiles{}) {
		return manager.Certificate, nil
	}
	return b.provisioned(), nil
}

// provisioned returns what reads the certificate that takes the place of the token, or nil if none
// ever does. One that cannot be read or has ended is none.
func (b *builder) provisioned() func() *tls.Certificate {
	files := b.Settings.CA.Provisioned
	if files == (settings.CertificateFiles{}) {
		return nil
	}
	return func() *tls.Certificate {
		own, err := tls.LoadX509KeyPair(files.Chain, files.Key)
		if err != nil || own.Leaf == nil || time.Now().After(own.Leaf.NotAfter) {
			return nil
		}
		return &own
	}
}

// keptCertificate is where a certificate stays for the next start: beside the bootstrap, whose
// volume is in memory. Mounted and provisioned certificates stay where they are.
func keptCertificate(s settings.Settings) string {
	if s.CA.Address == "" || s.CA.Provisioned != (settings.CertificateFiles{}) {
		return ""
	}
	return filepath.Join(s.Envoy.ConfigDir, "last-certificate.pem")
}

// authority returns the connection to the CA, or nil without one. The proxy proves itself by its
// token alone, unless a provisioned certificate takes its place: one that has ended would be
// refused before the token is looked at.
func (b *builder) authority() (*grpc.ClientConn, error) {
	s := b.Settings
	if s.CA.Address == "" {
		return nil, nil
	}
	return wire.Upstream{
		Address:    s.CA.Address,
		ServerName: s.CA.ServerName,
		RootFile:   s.CA.RootFile,
		Compliance: s.Compliance,
		TokenFile:  s.CA.TokenFile,
		ClusterID:  s.Node.ClusterID,
		Headers:    s.CA.Headers,

		Certificate: b.provisioned(),
		NoToken:     s.CA.Provisioned != (settings.CertificateFiles{}),
	}.Dial()
}

// identity is the SPIFFE id of the Pod's service account.
func identity(n settings.Node) string {
	account := n.ServiceAccount
	if account == "" {
		account = "default"
	}
	return "spiffe://" + n.TrustDomain + "/ns/" + n.Namespace + "/sa/" + account
}

// countCertificates registers the counts of certificates, with the names of pilot-agent's.
func (b *builder) countCertificates(m *certs.Manager) {
	b.registry.CounterFunc("istio_agent_num_outgoing_requests", "Requests to the CA.",
		func() float64 { return float64(m.Stats().Requests) }, "request_type", "csr")
	b.registry.CounterFunc("istio_agent_num_failed_outgoing_requests", "Requests to the CA that failed.",
		func() float64 { return float64(m.Stats().Failures) }, "request_type", "csr")
	b.registry.CounterFunc("lateen_agent_refused_secrets", "Secrets that Envoy has refused.",
		func() float64 { return float64(m.Stats().Refused) })
	b.registry.Gauge("istio_agent_cert_expiry_seconds", "Seconds until the workload's certificate ends.",
		func() float64 {
			if end := m.Stats().Expires; !end.IsZero() {
				return time.Until(end).Seconds()
			}
			return 0
		}, "resource_name", "default")
}
