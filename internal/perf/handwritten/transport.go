package handwritten

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

const keyFile, certificateFile = "key.pem", "certificate.pem"

// Transports writes a new certificate into a directory, and returns the transport sockets of a
// server and of a client that both show it, and demand one that it has signed.
func Transports(dir string) (server, client map[string]any, err error) {
	if err := writeCertificate(dir); err != nil {
		return nil, nil, err
	}
	const messages = "envoy.extensions.transport_sockets.tls.v3."
	common := func() map[string]any {
		return map[string]any{
			"tls_params": map[string]any{
				"tls_minimum_protocol_version": "TLSv1_3", "tls_maximum_protocol_version": "TLSv1_3",
			},
			"tls_certificates": []any{map[string]any{
				"certificate_chain": map[string]any{"filename": filepath.Join(dir, certificateFile)},
				"private_key":       map[string]any{"filename": filepath.Join(dir, keyFile)},
			}},
			"validation_context": map[string]any{
				"trusted_ca": map[string]any{"filename": filepath.Join(dir, certificateFile)},
			},
		}
	}
	socket := func(message string, fields map[string]any) map[string]any {
		fields["common_tls_context"] = common()
		return map[string]any{"name": "envoy.transport_sockets.tls", "typed_config": typed(messages+message, fields)}
	}
	return socket("DownstreamTlsContext", map[string]any{"require_client_certificate": true}),
		socket("UpstreamTlsContext", map[string]any{"sni": "server"}), nil
}

// writeCertificate writes a new key of the kind that the mesh's workloads have, and a certificate
// that it has signed itself.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "handwritten"}, DNSNames: []string{"server"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	write := func(file, kind string, content []byte) error {
		return os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
	}
	return errors.Join(write(keyFile, "PRIVATE KEY", private), write(certificateFile, "CERTIFICATE", certificate))
}
