package certs

import (
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
)

// Options are what a Manager needs.
type Options struct {
	// CA is the connection to the certificate authority (wire.Upstream.Dial). Without one, nothing
	// is asked for: there are Mounted certificates, or the workload's come from elsewhere.
	CA      *grpc.ClientConn
	Request Request
	// Grace is the part of a certificate's life that is left when it is renewed
	// (SECRET_GRACE_PERIOD_RATIO), moved by up to Jitter in both directions.
	Grace, Jitter float64
	// RootFile has further roots, in PEM; empty means none.
	RootFile string
	// RevokedFile has lists of revoked certificates of the mesh, in PEM; empty means none, and so
	// does a file that is not there.
	RevokedFile string
	// Mounted are the workload's own certificates in files (FILE_MOUNTED_CERTS). They take the
	// place of those of a CA.
	Mounted Files
	// Output are files to which certificates are written (OUTPUT_CERTS).
	Output Files
	// Kept is a file in which the certificate in force stays for the next process, whose CA may be
	// away. Empty means none, as does a file that is not in memory.
	Kept string
	// InMemory tells of a directory whether its files are in memory; nil asks the system.
	InMemory func(dir string) bool
	Clock    Clock
	Log      *slog.Logger
}

// Files are a certificate in files, in PEM. The zero value is none.
type Files struct{ Chain, Key, Root string }

// Request is what is asked for.
type Request struct {
	// Identity is the SPIFFE id of the workload.
	Identity string
	// TTL is how long the certificate should live; the CA may give less.
	TTL time.Duration
	// RSABits is the size of an RSA key; 0 makes ECDSA keys on P-256.
	RSABits int
	// PKCS8 has the key encoded in PKCS #8.
	PKCS8 bool
	// Signer is Istio's CertSigner. Empty is the CA's own.
	Signer string
}

// Clock is the time.
type Clock struct {
	Now func() time.Time
	// After returns a channel that has the time when the duration is over.
	After func(time.Duration) <-chan time.Time
}

// RealClock is the machine's.
func RealClock() Clock { return Clock{Now: time.Now, After: time.After} }

func (o Options) check() error {
	switch {
	case o.CA != nil && o.Mounted != (Files{}):
		return errors.New("certificates come from a CA and from mounted files; want one of both")
	case o.Grace <= 0 || o.Grace >= 1:
		return errors.New("the part of a certificate's life that is left when it is renewed; want above 0 and below 1")
	case o.Jitter < 0 || o.Jitter >= 1:
		return errors.New("the jitter of renewals; want at least 0 and below 1")
	}
	return nil
}
