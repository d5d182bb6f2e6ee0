package kube

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

var usedAnnotations = kinds.UsedAnnotations()

// usedNodeLabels say where a Node is.
var usedNodeLabels = []string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone, "topology.istio.io/subzone"}

// usedSecretKeys are those of certificates, authorities and lists of revoked ones: Kubernetes', and Istio's.
var usedSecretKeys = []string{"tls.crt", "tls.key", "ca.crt", "ca.crl", "cert", "key", "cacert", "crl"}

// annotations leaves those that are used.
func annotations(all map[string]string) map[string]string { return only(all, usedAnnotations) }

func topology(labels map[string]string) map[string]string { return only(labels, usedNodeLabels) }

// hasCertificates tells a Secret for TLS from one for other things.
func hasCertificates(s *corev1.Secret) bool {
	return s.Type == corev1.SecretTypeTLS || len(only(s.Data, usedSecretKeys)) > 0
}

func only[T any](all map[string]T, names []string) map[string]T {
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
