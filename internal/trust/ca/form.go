package ca

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// The keys of a Secret of the type kubernetes.io/tls, as cert-manager writes it.
const (
	tlsCertificateKey = "tls.crt" // the authority's certificate, then those above it
	tlsPrivateKey     = "tls.key"
	tlsRootsKey       = "ca.crt"
)

// The forms in which a Secret may have an authority.
const (
	istioForm = "Istio"
	tlsForm   = "kubernetes.io/tls"
)

// formOf returns the form of a Secret's content; empty if it has no certificate of either form. One
// with both has the form kubernetes.io/tls, as for istiod.
func formOf(data map[string][]byte) string {
	switch {
	case len(data[tlsCertificateKey]) > 0:
		return tlsForm
	case len(data[certificateKey]) > 0:
		return istioForm
	}
	return ""
}

// keysIn reads the content of a Secret. Its error names the keys that are missing.
func keysIn(data map[string][]byte) (Keys, error) {
	var missing []string
	get := func(key string) []byte {
		if len(bytes.TrimSpace(data[key])) == 0 {
			missing = append(missing, key)
		}
		return data[key]
	}
	var k Keys
	form := formOf(data)
	switch form {
	case tlsForm:
		k = Keys{
			Certificate: get(tlsCertificateKey), Key: get(tlsPrivateKey), Chain: data[tlsCertificateKey],
			Roots: get(tlsRootsKey),
		}
	default:
		k = Keys{
			Certificate: get(certificateKey), Key: get(privateKey), Chain: data[chainKey], Roots: get(rootsKey),
		}
	}
	switch {
	case len(missing) == 0:
		return k, nil
	case form == "":
		return Keys{}, fmt.Errorf("it has neither %s nor %s; want %s, %s, %s and %s, or, in the form of the type %s, "+
			"%s, %s and %s", certificateKey, tlsCertificateKey, certificateKey, privateKey, chainKey, rootsKey,
			tlsForm, tlsCertificateKey, tlsPrivateKey, tlsRootsKey)
	}
	slices.Sort(missing)
	return Keys{}, fmt.Errorf("it has the form %s, and %s is missing or empty", form, strings.Join(missing, ", "))
}

// rootsKeyOf returns the key with the roots.
func rootsKeyOf(data map[string][]byte) string {
	if formOf(data) == tlsForm {
		return tlsRootsKey
	}
	return rootsKey
}
