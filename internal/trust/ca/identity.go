package ca

import (
	"fmt"
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

// validate accepts what Kubernetes accepts as names. So no part can contain what separates them.
func (i Identity) validate() error {
	switch {
	case len(validation.IsDNS1123Subdomain(i.TrustDomain)) > 0:
		return fmt.Errorf("trust domain %.200q is not a DNS name in lower case", i.TrustDomain)
	case len(validation.IsDNS1123Label(i.Namespace)) > 0:
		return fmt.Errorf("%.200q is not the name of a namespace", i.Namespace)
	case len(validation.IsDNS1123Subdomain(i.ServiceAccount)) > 0:
		return fmt.Errorf("%.200q is not the name of a service account", i.ServiceAccount)
	}
	return nil
}
