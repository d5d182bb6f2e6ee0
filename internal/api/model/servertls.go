package model

import "slices"

// ServerTLSMode is what a Gateway's server does with TLS.
type ServerTLSMode uint8

const (
	// ServerPassthrough hands the connection on as it is; the server name in its hello says where.
	ServerPassthrough ServerTLSMode = iota
	// ServerSimple terminates TLS with a certificate of its own.
	ServerSimple
	// ServerMutual wants a certificate of the client, too.
	ServerMutual
	// ServerOptionalMutual checks a certificate of the client if there is one.
	ServerOptionalMutual
	// ServerIstioMutual is mutual TLS with the certificates that the proxy's agent has from the mesh.
	ServerIstioMutual
	// ServerAutoPassthrough hands connections of the mesh on as they are; the server name in their hello is that of a destination,
	// as proxies of the mesh ask each other for it (translate/cluster.ServerName).
	ServerAutoPassthrough
)

// Terminates tells that the bytes inside of TLS are seen.
func (m ServerTLSMode) Terminates() bool { return m != ServerPassthrough && m != ServerAutoPassthrough }

// ChecksClients tells that certificates of clients are checked.
func (m ServerTLSMode) ChecksClients() bool { return m.Terminates() && m >= ServerMutual }

// OwnCertificate tells that the proxy shows the certificate which its agent has from the mesh, and checks others by the mesh's
// authorities.
func (m ServerTLSMode) OwnCertificate() bool { return m == ServerIstioMutual }

// ServerTLS is Gateway.servers[].tls, canonical (Pool).
type ServerTLS struct {
	Mode ServerTLSMode
	// Credentials are the Secrets with certificates, of several kinds of keys at most one each, and CACredential is the one
	// with the authorities to check clients by; they are looked for in the namespace of the proxy. Or Files are.
	Credentials  []string
	CACredential string
	Files        []CertificateFiles
	CAFile       string
	// RevokedFile is a file with lists of revoked certificates.
	RevokedFile string
	// What is demanded of a client's certificate besides; empty for nothing.
	SubjectAltNames, PublicKeys, Hashes []string
	// AnyClient takes certificates of clients unchecked (insecureSkipVerify).
	AnyClient  bool
	MinVersion TLSVersion
	MaxVersion TLSVersion
	Ciphers    []string // empty: Istio's default
}

// CertificateFiles are paths on the proxy's machine.
type CertificateFiles struct{ Chain, Key string }

// Names are the credentials that the settings name, each once: those with certificates, then the one with authorities.
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
