package spec

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// strictObjects returns what Maistra's operator makes of security.dataPlane.mtls (its chart
// mesh-config): the workloads of the mesh take mutual TLS alone, and callers use it for each host
// of the cluster but the API server's.
func (s *Spec) strictObjects() []*unstructured.Unstructured {
	domain, _ := at(s.Values, "global.proxy.clusterDomain").(string)
	if domain == "" {
		domain = "cluster.local"
	}
	object := func(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		o.SetAPIVersion(apiVersion)
		o.SetKind(kind)
		o.SetNamespace(s.Root())
		o.SetName(name)
		return o
	}
	tls := func(host, mode string) map[string]any {
		return map[string]any{
			"host": host, "trafficPolicy": map[string]any{"tls": map[string]any{"mode": mode}},
		}
	}
	const networking = "networking.istio.io/v1"
	return []*unstructured.Unstructured{
		object("security.istio.io/v1", "PeerAuthentication", "default",
			map[string]any{"mtls": map[string]any{"mode": "STRICT"}}),
		object(networking, "DestinationRule", "default", tls("*.local", "ISTIO_MUTUAL")),
		object(networking, "DestinationRule", "api-server", tls("kubernetes.default.svc."+domain, "DISABLE")),
	}
}
