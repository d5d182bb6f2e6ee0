package controlplane

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

// Security is what a measured control plane and its sidecars need for TLS with tokens. One is made
// for a run, and lives through restarts of the control plane.
type Security struct {
	// Certificate is the server's, in DER, signed by itself; Key is its key, in PKCS #8. Tokens is
	// the key with which tokens are signed.
	Certificate, Key, Tokens []byte
}

// SecurityVariable is the environment variable with which the child gets it.
const SecurityVariable = "LATEEN_PERF_SECURITY"

// tokenBytes is the length of a token: Kubernetes' have about as many.
const tokenBytes = 1100

// NewSecurity makes a certificate for loopback and a key for tokens.
func NewSecurity() (*Security, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	s := &Security{Tokens: []byte(rand.Text())}
	if s.Certificate, err = x509.CreateCertificate(rand.Reader, template, template, key.Public(), key); err != nil {
		return nil, err
	}
	s.Key, err = x509.MarshalPKCS8PrivateKey(key)
	return s, err
}

// Setting is the value of SecurityVariable.
func (s *Security) Setting() string {
	text, _ := json.Marshal(s) // bytes alone
	return string(text)
}

// ReadSecurity reads the value of SecurityVariable.
func ReadSecurity(setting string) (*Security, error) {
	s := &Security{}
	if err := json.Unmarshal([]byte(setting), s); err != nil {
		return nil, fmt.Errorf("%s: %w", SecurityVariable, err)
	}
	return s, nil
}

// Server returns the configuration of the control plane's listener.
func (s *Security) Server() (*tls.Config, error) {
	key, err := x509.ParsePKCS8PrivateKey(s.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", SecurityVariable, err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, ClientAuth: tls.RequestClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{s.Certificate}, PrivateKey: key}},
	}, nil
}

// Client returns the configuration of sidecars.
func (s *Security) Client() (*tls.Config, error) {
	certificate, err := x509.ParseCertificate(s.Certificate)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
}

// Token returns the token of a Pod.
func (s *Security) Token(namespace, account, pod string) string {
	says := base64.RawURLEncoding.EncodeToString([]byte(strings.Join([]string{namespace, account, pod}, "/")))
	proof := base64.RawURLEncoding.EncodeToString(s.sign(says))
	padding := strings.Repeat("x", max(0, tokenBytes-len(says)-len(proof)-2))
	return says + "." + proof + "." + padding
}

// Account returns whose token it is.
func (s *Security) Account(token string) (namespace, account, pod string, known bool) {
	says, rest, _ := strings.Cut(token, ".")
	proof, _, _ := strings.Cut(rest, ".")
	signature, err := base64.RawURLEncoding.DecodeString(proof)
	if err != nil || !hmac.Equal(signature, s.sign(says)) {
		return "", "", "", false
	}
	text, err := base64.RawURLEncoding.DecodeString(says)
	parts := bytes.Split(text, []byte("/"))
	if err != nil || len(parts) != 3 {
		return "", "", "", false
	}
	return string(parts[0]), string(parts[1]), string(parts[2]), true
}

func (s *Security) sign(text string) []byte {
	h := hmac.New(sha256.New, s.Tokens)
	h.Write([]byte(text))
	return h.Sum(nil)
}
