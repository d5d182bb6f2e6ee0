package ca

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
)

// maxRequestBytes is the size of the largest signing request. One with an RSA key of 4,096 bits has
// less than 2 KiB.
const maxRequestBytes = 16 << 10

// The RSA keys that are certified. Larger ones cost peers much time in each handshake.
const minRSABits, maxRSABits = 2048, 4096

// readRequest reads a signing request of an identity, which may have these names and no other. The
// error wraps ErrRequest or ErrIdentity.
func readRequest(csr []byte, caller Identity, names []string) (*x509.CertificateRequest, error) {
	request, err := parseRequest(csr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := caller.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIdentity, err)
	}
	if foreign := foreignName(request, names); foreign != "" {
		return nil, fmt.Errorf("%w: the signing request names %.200q, the caller is %s; want no other name than that",
			ErrIdentity, foreign, caller.URI())
	}
	return request, nil
}

// parseRequest reads a signing request in PEM and checks that the caller has its key.
func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	if len(text) > maxRequestBytes {
		return nil, fmt.Errorf("the signing request has %d bytes; at most %d are accepted", len(text), maxRequestBytes)
	}
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return nil, errors.New("the signing request is not in PEM; want a block CERTIFICATE REQUEST")
	case block.Type != "CERTIFICATE REQUEST" && block.Type != "NEW CERTIFICATE REQUEST":
		return nil, fmt.Errorf("the signing request is a block %.40q; want CERTIFICATE REQUEST", block.Type)
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("the signing request is followed by something else; want one block")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the signing request cannot be read: %w", err)
	}
	if err := checkKey(request.PublicKey); err != nil {
		return nil, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the signing request is not signed by its own key: %w", err)
	}
	return request, nil
}

const acceptedKeys = "want ECDSA P-256 or P-384, RSA of 2048 to 4096 bits, or Ed25519"

func checkKey(key any) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() {
			return fmt.Errorf("the key is ECDSA %s; %s", key.Curve.Params().Name, acceptedKeys)
		}
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("the key is RSA of %d bits; %s", bits, acceptedKeys)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Errorf("the key is of an unknown kind; %s", acceptedKeys)
	}
	return nil
}

// foreignName returns what a request asks to be named, other than the identities; empty if there is
// nothing. Its subject is not looked at, because it does not go into the certificate.
func foreignName(request *x509.CertificateRequest, identities []string) string {
	switch {
	case len(request.DNSNames) > 0:
		return "DNS:" + request.DNSNames[0]
	case len(request.IPAddresses) > 0:
		return "IP:" + request.IPAddresses[0].String()
	case len(request.EmailAddresses) > 0:
		return "email:" + request.EmailAddresses[0]
	}
	for _, uri := range request.URIs {
		if !slices.Contains(identities, uri.String()) {
			return uri.String()
		}
	}
	return ""
}
