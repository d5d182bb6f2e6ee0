package ca

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// RevokedKey is the key with the lists of revoked certificates (CRLs in PEM), in the Secret cacerts
// and in the ConfigMaps for proxies. It is Istio's.
const RevokedKey = "ca-crl.pem"

// ErrRevoked means that a certificate is on a list of revoked certificates.
var ErrRevoked = errors.New("the certificate is revoked")

// errNoLists means that it is not known which certificates are revoked.
var errNoLists = errors.New("the lists of revoked certificates (" + RevokedKey + ") cannot be used")

// revocations are the lists of certificates that an authority and those above it have revoked. The
// zero value has none, and revokes nothing.
type revocations struct {
	text    []byte // in PEM
	revoked map[revokedKey]struct{}
	ends    time.Time // when the first list does
	// refused means that there are lists which cannot be used, and none from before.
	refused bool
}

// revokedKey names a certificate by who has signed it: that authority's name and key, in DER, and
// the serial number.
type revokedKey struct{ name, key, serial string }

func keyOf(authority *x509.Certificate, serial *big.Int) revokedKey {
	return revokedKey{
		string(authority.RawSubject), string(authority.RawSubjectPublicKeyInfo), string(serial.Bytes()),
	}
}

// add adds a list of an authority.
func (r *revocations) add(list *x509.RevocationList, authority *x509.Certificate) {
	common := keyOf(authority, new(big.Int))
	for _, e := range list.RevokedCertificateEntries {
		common.serial = string(e.SerialNumber.Bytes())
		r.revoked[common] = struct{}{}
	}
	if r.ends.IsZero() || list.NextUpdate.Before(r.ends) {
		r.ends = list.NextUpdate
	}
}

// check returns ErrRevoked if a list has one of the certificates, which lead from a leaf to a root.
// Each stream pays for it, so it verifies no list.
func (r revocations) check(chain []*x509.Certificate) error {
	if len(r.revoked) == 0 {
		return nil
	}
	for i, c := range chain {
		issuer := chain[min(i+1, len(chain)-1)]
		if _, revoked := r.revoked[keyOf(issuer, c.SerialNumber)]; revoked {
			return fmt.Errorf("%w: %s has serial number %x", ErrRevoked, issuer.Subject, c.SerialNumber)
		}
	}
	return nil
}

// isOf reports whether a list is that of an authority.
func isOf(list *x509.RevocationList, authority *x509.Certificate) bool {
	return bytes.Equal(list.RawIssuer, authority.RawSubject) && list.CheckSignatureFrom(authority) == nil
}

// withRevocations returns the same authority with lists of revoked certificates.
func (a *Authority) withRevocations(r revocations) *Authority {
	other := *a
	other.revoked = r
	return &other
}

// Revoked returns the lists of revoked certificates in PEM; empty without any. It is not known if
// there are some that cannot be used: then those that proxies have should stay.
func (a *Authority) Revoked() (text []byte, known bool) { return a.revoked.text, !a.revoked.refused }

// readRevocations reads lists of revoked certificates. A proxy that has one list demands one of
// each authority between a certificate and its root, and that it has not ended: what is missing
// would have it refuse every certificate, so such lists are not taken.
func (a *Authority) readRevocations(text []byte, now time.Time) (revocations, error) {
	lists, err := parseRevocations(text)
	if err != nil {
		return revocations{}, err
	}
	read := revocations{text: text, revoked: map[revokedKey]struct{}{}}
	authorities := slices.Concat(a.keys.intermediates, a.keys.roots)
	listed := make([]bool, len(authorities))
	for i, list := range lists {
		known := false
		for j, c := range authorities { // one authority may have several certificates
			if isOf(list, c) {
				known, listed[j] = true, true
				read.add(list, c)
			}
		}
		switch {
		case !known:
			return revocations{}, fmt.Errorf("list %d is that of another authority (%s); want lists that the "+
				"authorities of the chain and of the roots have signed", i+1, list.Issuer)
		case list.NextUpdate.IsZero():
			return revocations{}, fmt.Errorf("list %d (%s) has no end; want nextUpdate", i+1, list.Issuer)
		case now.After(list.NextUpdate):
			return revocations{}, fmt.Errorf("list %d (%s) has ended at %s; want one whose nextUpdate is to come",
				i+1, list.Issuer, list.NextUpdate.UTC().Format(time.RFC3339))
		}
	}
	if missing := slices.Index(listed, false); missing >= 0 {
		return revocations{}, fmt.Errorf("there is no list of %s; want one of each authority of the chain and of the "+
			"roots, since proxies refuse all certificates without", authorities[missing].Subject)
	}
	return read, nil
}

// deltaList is the extension that makes a list a part of another (RFC 5280, section 5.2.4).
var deltaList = asn1.ObjectIdentifier{2, 5, 29, 27}

// parseRevocations reads one or more lists.
func parseRevocations(text []byte) (all []*x509.RevocationList, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			return nil, fmt.Errorf("a block %.40q among the lists; want X509 CRL", block.Type)
		}
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("list %d: %w", len(all)+1, err)
		}
		for _, extension := range list.Extensions {
			if extension.Id.Equal(deltaList) {
				return nil, fmt.Errorf("list %d has the changes of another alone; want whole lists", len(all)+1)
			}
		}
		all = append(all, list)
	}
	if len(all) == 0 {
		return nil, errors.New("there is no list in PEM")
	}
	return all, nil
}
