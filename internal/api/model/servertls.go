package model

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/compliance"
)

// ServerTLSMode says what a Gateway's server does with TLS.
type ServerTLSMode uint8

const (
	// ServerPassthrough forwards the connection as it is, by its SNI.
	ServerPassthrough ServerTLSMode = iota
	// ServerSimple terminates TLS with a certificate of its own.
	ServerSimple
	// ServerMutual also requires a certificate of the client.
	ServerMutual
	// ServerOptionalMutual verifies a client's certificate if there is one.
	ServerOptionalMutual
	// ServerIstioMutual is mutual TLS with the mesh's certificates, which the proxy's agent has.
	ServerIstioMutual
	// ServerAutoPassthrough forwards connections of the mesh as they are. Their SNI names a
	// destination as proxies of the mesh do (translate/cluster.ServerName).
	ServerAutoPassthrough
)

// Terminates reports whether the proxy sees the bytes inside TLS.
func (m ServerTLSMode) Terminates() bool { return m != ServerPassthrough && m != ServerAutoPassthrough }

// ChecksClients reports whether certificates of clients are verified.
func (m ServerTLSMode) ChecksClients() bool { return m.Terminates() && m >= ServerMutual }

// OwnCertificate reports whether the proxy uses the certificate and authorities that its agent has
// from the mesh.
func (m ServerTLSMode) OwnCertificate() bool { return m == ServerIstioMutual }

// ServerTLS is Gateway.servers[].tls, canonical (Pool).
type ServerTLS struct {
	Mode ServerTLSMode
	// Credentials are the Secrets with certificates, at most one for each kind of key. CACredential
	// is the Secret with the authorities to verify clients with. They are looked up in the
	// namespace of the proxy. Files are used in their place.
	Credentials  []string
	CACredential string
	Files        []CertificateFiles
	CAFile       string
	// Authorities are certificates in PEM to verify clients with, in place of a Secret or a file.
	Authorities string
	// RevokedFile is a file with lists of revoked certificates.
	RevokedFile string
	// SubjectAltNames, PublicKeys and Hashes are further demands on a client's certificate; empty
	// for none.
	SubjectAltNames, PublicKeys, Hashes []string
	// AnyClient accepts certificates of clients unverified (insecureSkipVerify).
	AnyClient  bool
	MinVersion TLSVersion
	MaxVersion TLSVersion
	Ciphers    []string // empty: Istio's default
}

// CertificateFiles are paths on the proxy's machine.
type CertificateFiles struct{ Chain, Key string }

// Names returns the credentials of the settings, each once: those with certificates, then the one
// with authorities.
func (t *ServerTLS) Names() []string {
	if t == nil {
		return nil
	}
	names := slices.Clone(t.Credentials)
	if t.CACredential != "" && !slices.Contains(names, t.CACredential) {
		names = append(names, t.CACredential)
	}
	return names
}

// TLSParams are limits of the mesh on what TLS connections may use (MeshConfig.meshMTLS and
// tlsDefaults), canonical (Pool).
type TLSParams struct {
	MinVersion TLSVersion
	// Ciphers are for TLS 1.2 and less; empty for Envoy's. Curves are for the exchange of keys, by
	// their names in Envoy; empty for Envoy's.
	Ciphers, Curves []string
	// Compliance stands above all that objects say of TLS.
	Compliance compliance.Policy
}

// TLSVersion is a version of TLS; the zero value leaves it to the default.
type TLSVersion uint8

// The versions.
const (
	TLSAuto TLSVersion = iota
	TLS10
	TLS11
	TLS12
	TLS13
)
