package kinds

import (
	"slices"
	"strings"
)

// ServingSecret is the Secret with the control plane's serving certificate, in its root namespace.
// Revisions append a dash and their name.
const ServingSecret = "lateen-serving-cert"

// AuthoritiesKey is the key of a ConfigMap or a Secret with the certificates of authorities.
const AuthoritiesKey = "ca.crt"

// KeySetsConfigMap returns the name of the ConfigMap with the keys that a control plane has
// fetched, beside the one with its mesh configuration: each revision has one of its own.
func KeySetsConfigMap(meshConfig string) string {
	return "lateen-jwks" + strings.TrimPrefix(meshConfig, "istio")
}

// IsReservedSecret reports whether a Secret of the root namespace is the control plane's own, which
// no proxy gets: its serving certificate, or the key of the mesh's certificate authority.
func IsReservedSecret(name string) bool {
	return slices.Contains([]string{ServingSecret, "istio-ca-secret", "cacerts"}, name) ||
		strings.HasPrefix(name, ServingSecret+"-")
}
