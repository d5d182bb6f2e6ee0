package kinds

import (
	"slices"
	"strings"
)

// ServingSecret is the Secret with the control plane's serving certificate, in its root namespace.
// Revisions append a dash and their name.
const ServingSecret = "lateen-serving-cert"

// IsReservedSecret reports whether a Secret of the root namespace is the control plane's own, which
// no proxy gets: its serving certificate, or the key of the mesh's certificate authority.
func IsReservedSecret(name string) bool {
	return slices.Contains([]string{ServingSecret, "istio-ca-secret", "cacerts"}, name) ||
		strings.HasPrefix(name, ServingSecret+"-")
}
