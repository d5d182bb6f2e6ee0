package install

import "fmt"

// Names are those of one control plane's things in its root namespace, and in the cluster.
type Names struct {
	Namespace string
	// Service is what proxies and the API server reach it by: "istiod", where Istio's tools look.
	Service string
	// Deployment, ServiceAccount and PodDisruptionBudget are all called so.
	Deployment string
	// Secret holds the serving certificate, Lease says which replica writes.
	Secret, Lease string
	// Webhook is the ValidatingWebhookConfiguration, and ClusterRole the ClusterRole and its
	// binding.
	Webhook, ClusterRole string
	// MeshConfig is the ConfigMap of the mesh configuration.
	MeshConfig string
}

// NamesOf gives the names of a revision's control plane; empty and "default" stand for the only
// one.
func NamesOf(namespace, revision string) Names {
	suffix := ""
	if revision != "" && revision != "default" {
		suffix = "-" + revision
	}
	return Names{
		Namespace:   namespace,
		Service:     "istiod" + suffix,
		Deployment:  "istiod" + suffix,
		MeshConfig:  "istio" + suffix,
		Secret:      "lateen-serving-cert" + suffix,
		Lease:       "lateen-leader" + suffix,
		Webhook:     fmt.Sprintf("lateen-validator%s-%s", suffix, namespace),
		ClusterRole: fmt.Sprintf("lateen%s-%s", suffix, namespace),
	}
}

// ServerNames are the DNS names of the serving certificate. The first is what Istio's agents and
// tools insist on.
func (n Names) ServerNames() []string {
	names := []string{n.Service + "." + n.Namespace + ".svc"}
	for _, service := range []string{"istiod", "lateen"} {
		if name := service + "." + n.Namespace + ".svc"; name != names[0] {
			names = append(names, name)
		}
	}
	return names
}
