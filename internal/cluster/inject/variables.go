package inject

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// variables returns the environment that an agent needs, sidecar or gateway.
func (i *Injector) variables(r *request, f *proxyFacts) []object {
	field := func(name, path string) object {
		return object{"name": name, "valueFrom": object{"fieldRef": object{"fieldPath": path}}}
	}
	limit := func(name, resource string) object {
		of := object{"resource": resource, "divisor": "1"}
		return object{"name": name, "valueFrom": object{"resourceFieldRef": of}}
	}
	all := []object{
		{"name": "PILOT_CERT_PROVIDER", "value": i.values.text("global.pilotCertProvider")},
		{"name": "CA_ADDR", "value": f.CA},
		field("POD_NAME", "metadata.name"),
		field("POD_NAMESPACE", "metadata.namespace"),
		field("INSTANCE_IP", "status.podIP"),
		field("SERVICE_ACCOUNT", "spec.serviceAccountName"),
		field("HOST_IP", "status.hostIP"),
		limit("ISTIO_CPU_LIMIT", "limits.cpu"),
		limit("GOMEMLIMIT", "limits.memory"),
		{"name": "PROXY_CONFIG", "value": f.Config},
		{"name": "ISTIO_META_POD_PORTS", "value": f.Ports},
		{"name": "ISTIO_META_APP_CONTAINERS", "value": strings.Join(f.Containers, ",")},
		{"name": clusterVariable, "value": cmp.Or(i.values.text("global.multiCluster.clusterName"), "Kubernetes")},
		field("ISTIO_META_NODE_NAME", "spec.nodeName"),
	}
	_, bootstrap := r.pod.Annotations[bootstrapName]
	for _, v := range []struct {
		name, value string
		set         bool
	}{
		{networkVariable, i.values.text("global.network"), i.values.text("global.network") != ""},
		{"ISTIO_META_WORKLOAD_NAME", f.Workload, f.Workload != ""},
		{"ISTIO_META_OWNER", f.Owner, f.Owner != ""},
		{"ISTIO_BOOTSTRAP_OVERRIDE", "/etc/istio/custom-bootstrap/custom_bootstrap.json", bootstrap},
		{"ISTIO_META_MESH_ID", f.MeshID, f.MeshID != ""},
		{"TRUST_DOMAIN", f.TrustDomain, f.TrustDomain != ""},
		{"COMPLIANCE_POLICY", i.Compliance, i.Compliance != ""},
		// Without it Istio's CNI plugin redirects one family of addresses alone.
		{"ISTIO_DUAL_STACK", "true", i.HasPlugin()},
	} {
		if v.set {
			all = append(all, object{"name": v.name, "value": v.value})
		}
	}
	return all
}

// volume is a volume with the place where the proxy has it.
type volume struct {
	name, path string
	source     object
}

// volumes returns what an agent needs: sockets, its configuration, the Pod's labels and
// annotations, its token and the roots of the control plane.
func (i *Injector) volumes(r *request) []volume {
	empty := object{"emptyDir": object{}}
	item := func(path, field string) object {
		return object{"path": path, "fieldRef": object{"fieldPath": field}}
	}
	all := []volume{
		{"workload-socket", "/var/run/secrets/workload-spiffe-uds", empty},
		{"credential-socket", "/var/run/secrets/credential-uds", empty},
		{"workload-certs", "/var/run/secrets/workload-spiffe-credentials", empty},
		{"istio-envoy", "/etc/istio/proxy", object{"emptyDir": object{"medium": string(corev1.StorageMediumMemory)}}},
		{"istio-data", "/var/lib/istio/data", empty},
		{"istio-podinfo", "/etc/istio/pod", object{"downwardAPI": object{"items": []any{
			item("labels", "metadata.labels"), item("annotations", "metadata.annotations"),
		}}}},
		{"istio-token", "/var/run/secrets/tokens", object{"projected": object{"sources": []any{
			object{"serviceAccountToken": object{
				"path": "istio-token", "expirationSeconds": 43200, "audience": i.values.text("global.sds.token.aud"),
			}},
		}}}},
	}
	if i.values.text("global.pilotCertProvider") == "istiod" {
		roots := cmp.Or(i.values.text("global.trustBundleName"), "istio-ca-root-cert")
		all = append(all,
			volume{"istiod-ca-cert", "/var/run/secrets/istio", object{"configMap": object{"name": roots}}},
			volume{"istio-ca-crl", "/var/run/secrets/istio/crl", object{"configMap": object{
				"name": "istio-ca-crl", "optional": true,
			}}})
	}
	if config, ok := r.pod.Annotations[bootstrapName]; ok {
		all = append(all, volume{
			"custom-bootstrap-volume", "/etc/istio/custom-bootstrap", object{"configMap": object{"name": config}},
		})
	}
	return all
}

// listed returns volumes as Pods have them, and their mounts.
func listed(all []volume) (volumes, mounts []object) {
	for _, v := range all {
		of := copied(v.source).(object)
		of["name"] = v.name
		volumes = append(volumes, of)
		mounts = append(mounts, object{"name": v.name, "mountPath": v.path})
	}
	return volumes, mounts
}
