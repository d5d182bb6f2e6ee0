package ca

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Identity is a workload: a service account of a namespace in a trust domain.
type Identity struct {
	TrustDomain, Namespace, ServiceAccount string
	// Pod is the Pod that the caller's token is bound to; empty if it is bound to none. It is no
	// part of the certificate.
	Pod string
}

// URI returns the SPIFFE id.
func (i Identity) URI() string {
	return fmt.Sprintf("spiffe://%s/ns/%s/sa/%s", i.TrustDomain, i.Namespace, i.ServiceAccount)
}

// ParseIdentity reads a SPIFFE id of the form that URI returns. No other spelling of an id is
// accepted, so equal identities have equal text.
func ParseIdentity(uri string) (Identity, error) {
	rest, ok := strings.CutPrefix(uri, "spiffe://")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 5 || parts[1] != "ns" || parts[3] != "sa" {
		return Identity{}, fmt.Errorf(
			"%.200q is not of the form spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT", uri)
	}
	id := Identity{TrustDomain: parts[0], Namespace: parts[2], ServiceAccount: parts[4]}
	return id, id.validate()
}

// validate accepts what SPIFFE and Kubernetes accept as names. So no part can contain what
// separates them.
func (i Identity) validate() error {
	switch {
	case !isTrustDomain(i.TrustDomain):
		return fmt.Errorf("trust domain %.200q is no such name; want lower-case letters, digits, dots, hyphens "+
			"and underscores", i.TrustDomain)
	case len(validation.IsDNS1123Label(i.Namespace)) > 0:
		return fmt.Errorf("%.200q is not the name of a namespace", i.Namespace)
	case len(validation.IsDNS1123Subdomain(i.ServiceAccount)) > 0:
		return fmt.Errorf("%.200q is not the name of a service account", i.ServiceAccount)
	}
	return nil
}

// isTrustDomain reports whether a name can be that of a trust domain (SPIFFE ID, 2.1).
func isTrustDomain(name string) bool {
	other := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_'
	}
	return name != "" && len(name) <= 255 && !strings.ContainsFunc(name, other)
}

// Domains are the trust domains of a mesh.
type Domains struct {
	// Own is that of the certificates that are issued (MeshConfig.trustDomain).
	Own string
	// Aliases are equivalent to it (trustDomainAliases): former ones, and those of other meshes
	// with the same namespaces and service accounts.
	Aliases []string
}

// Adopt returns an identity as one of the mesh's own trust domain, if it is of one of the domains.
func (d Domains) Adopt(id Identity) (Identity, error) {
	if id.TrustDomain != d.Own && !slices.Contains(d.Aliases, id.TrustDomain) {
		return Identity{}, fmt.Errorf("%s is of another trust domain than this mesh; want %s, or an entry of "+
			"trustDomainAliases in the mesh configuration", id.URI(), d.Own)
	}
	id.TrustDomain = d.Own
	return id, nil
}
