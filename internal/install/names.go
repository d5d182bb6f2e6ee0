package install

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// Names are the names of the objects of one control plane, in its root namespace and in the
// cluster.
type Names struct {
	Namespace string
	// Service is how proxies and the API server reach the control plane. Istio's tools look for
	// "istiod".
	Service string
	// Deployment is also the name of the ServiceAccount, the PodDisruptionBudget and the
	// NetworkPolicy.
	Deployment string
	// Secret holds the serving certificate, Lease names the leader.
	Secret, Lease string
	// Webhook is the ValidatingWebhookConfiguration, and ClusterRole the ClusterRole and its
	// binding.
	Webhook, ClusterRole string
	// Injector is the MutatingWebhookConfiguration.
	Injector string
	// MeshConfig is the ConfigMap of the mesh configuration, and InjectorConfig that of the
	// injection.
	MeshConfig, InjectorConfig string
	// KeySets is the ConfigMap with the keys that were fetched of token issuers.
	KeySets string
	// Record is the ConfigMap that says what lateen install has installed.
	Record string
}

// NamesOf returns the names of a revision's control plane. Empty and "default" stand for the only
// one.
func NamesOf(namespace, revision string) Names {
	suffix := ""
	if revision != "" && revision != "default" {
		suffix = "-" + revision
	}
	return Names{
		Namespace:      namespace,
		Service:        "istiod" + suffix,
		Deployment:     "istiod" + suffix,
		MeshConfig:     "istio" + suffix,
		InjectorConfig: "istio-sidecar-injector" + suffix,
		KeySets:        kinds.KeySetsConfigMap("istio" + suffix),
		Record:         "lateen-install" + suffix,
		Secret:         kinds.ServingSecret + suffix,
		Lease:          "lateen-leader" + suffix,
		Webhook:        fmt.Sprintf("lateen-validator%s-%s", suffix, namespace),
		Injector:       fmt.Sprintf("lateen-injector%s-%s", suffix, namespace),
		ClusterRole:    fmt.Sprintf("lateen%s-%s", suffix, namespace),
	}
}

// Discovery returns the address at which proxies reach the control plane, with its port.
func (n Names) Discovery() string { return n.Service + "." + n.Namespace + ".svc:15012" }

// ServerNames returns the DNS names of the serving certificate. Istio's agents and tools insist on
// the first.
func (n Names) ServerNames() []string {
	names := []string{n.Service + "." + n.Namespace + ".svc"}
	for _, service := range []string{"istiod", "lateen"} {
		if name := service + "." + n.Namespace + ".svc"; name != names[0] {
			names = append(names, name)
		}
	}
	return names
}
