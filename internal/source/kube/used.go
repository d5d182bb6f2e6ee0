package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// usedAnnotations are those that conversions read.
var usedAnnotations = kinds.UsedAnnotations()

// usedNodeLabels say where a Node is.
var usedNodeLabels = []string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone, "topology.istio.io/subzone"}

// usedSecretKeys are the keys of certificates, authorities and revocation lists: Kubernetes' own,
// and Istio's.
var usedSecretKeys = []string{"tls.crt", "tls.key", "ca.crt", "ca.crl", "cert", "key", "cacert", "crl"}

// annotations returns the used ones.
func annotations(all map[string]string) map[string]string { return pick(all, usedAnnotations) }

func topology(labels map[string]string) map[string]string { return pick(labels, usedNodeLabels) }

// hasCertificates reports whether a Secret is for TLS.
func hasCertificates(s *corev1.Secret) bool {
	return s.Type == corev1.SecretTypeTLS || len(pick(s.Data, usedSecretKeys)) > 0
}

func pick[T any](all map[string]T, names []string) map[string]T {
	var used map[string]T
	for _, name := range names {
		if value, set := all[name]; set {
			if used == nil {
				used = map[string]T{}
			}
			used[name] = value
		}
	}
	return used
}
