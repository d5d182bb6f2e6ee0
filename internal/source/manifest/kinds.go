package manifest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// usedKind is a kind that Lateen reads.
type usedKind struct {
	kind source.Kind
	// versions are the apiVersions under which it is accepted, the preferred one first.
	versions []string
	// clusterScoped kinds stand in no namespace.
	clusterScoped bool
	// name is the rule for metadata.name.
	name nameRule
	// shape is the schema of the type that it is decoded into.
	shape shape
}

// catalogue holds what is known about kinds. It does not change once built.
type catalogue struct {
	resources map[source.Kind]*usedKind
	// versions has every kind that is known to exist, with its apiVersions, the preferred one first.
	versions map[string][]string
	// groups are the API groups of these, "" for the core group.
	groups []string
	kinds  []string
}

// theCatalogue builds the catalogue once, at its first use: the schemas take about a millisecond.
var theCatalogue = sync.OnceValue(newCatalogue)

func newCatalogue() *catalogue {
	c := &catalogue{resources: map[source.Kind]*usedKind{}, versions: unusedKinds()}
	shapes := newShapeBuilder()
	for _, r := range usedKinds() {
		r.shape = shapes.ofType(reflect.TypeOf(r.kind.NewObject()).Elem())
		c.resources[r.kind] = r
		c.versions[string(r.kind)] = append(r.versions, c.versions[string(r.kind)]...)
	}
	for kind, versions := range c.versions {
		c.kinds = append(c.kinds, kind)
		for _, v := range versions {
			c.groups = append(c.groups, groupOf(v))
		}
	}
	slices.Sort(c.kinds)
	slices.Sort(c.groups)
	c.groups = slices.Compact(c.groups)
	return c
}

func usedKinds() []*usedKind {
	istio := []string{"networking.istio.io/v1", "networking.istio.io/v1beta1", "networking.istio.io/v1alpha3"}
	security := []string{"security.istio.io/v1", "security.istio.io/v1beta1"}
	kubernetes := []string{"networking.k8s.io/v1"}
	core, apps, discovery := []string{"v1"}, []string{"apps/v1"}, []string{"discovery.k8s.io/v1"}
	return []*usedKind{
		{kind: source.Namespace, versions: core, clusterScoped: true, name: dnsLabel},
		{kind: source.Node, versions: core, clusterScoped: true, name: dnsSubdomain},
		{kind: source.Service, versions: core, name: serviceName},
		{kind: source.ServiceAccount, versions: core, name: dnsSubdomain},
		{kind: source.Pod, versions: core, name: dnsSubdomain},
		{kind: source.ConfigMap, versions: core, name: dnsSubdomain},
		{kind: source.Secret, versions: core, name: dnsSubdomain},
		{kind: source.Ingress, versions: kubernetes, name: dnsSubdomain},
		{kind: source.IngressClass, versions: kubernetes, clusterScoped: true, name: dnsSubdomain},
		{kind: source.Deployment, versions: apps, name: dnsSubdomain},
		{kind: source.EndpointSlice, versions: discovery, name: dnsSubdomain},
		{kind: source.Gateway, versions: istio, name: dnsSubdomain},
		{kind: source.VirtualService, versions: istio, name: dnsSubdomain},
		{kind: source.DestinationRule, versions: istio, name: dnsSubdomain},
		{kind: source.ServiceEntry, versions: istio, name: dnsSubdomain},
		{kind: source.Sidecar, versions: istio, name: dnsSubdomain},
		{kind: source.AuthorizationPolicy, versions: security, name: dnsSubdomain},
		{kind: source.PeerAuthentication, versions: security, name: dnsSubdomain},
	}
}

// unusedKinds are kinds of Kubernetes, Istio and the Gateway API that manifests hold and that Lateen does not read:
// a warning for a document of these, where a misspelt kind is an error.
func unusedKinds() map[string][]string {
	byVersion := map[string]string{
		"v1": "Binding ComponentStatus Endpoints Event LimitRange PersistentVolume PersistentVolumeClaim " +
			"PodTemplate ReplicationController ResourceQuota",
		"apps/v1":                              "ControllerRevision DaemonSet ReplicaSet StatefulSet",
		"batch/v1":                             "CronJob Job",
		"autoscaling/v2":                       "HorizontalPodAutoscaler",
		"autoscaling/v1":                       "HorizontalPodAutoscaler Scale",
		"policy/v1":                            "Eviction PodDisruptionBudget",
		"rbac.authorization.k8s.io/v1":         "ClusterRole ClusterRoleBinding Role RoleBinding",
		"networking.k8s.io/v1":                 "IPAddress NetworkPolicy ServiceCIDR",
		"storage.k8s.io/v1":                    "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass",
		"scheduling.k8s.io/v1":                 "PriorityClass",
		"node.k8s.io/v1":                       "RuntimeClass",
		"coordination.k8s.io/v1":               "Lease",
		"certificates.k8s.io/v1":               "CertificateSigningRequest",
		"certificates.k8s.io/v1beta1":          "ClusterTrustBundle",
		"events.k8s.io/v1":                     "Event",
		"resource.k8s.io/v1":                   "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
		"flowcontrol.apiserver.k8s.io/v1":      "FlowSchema PriorityLevelConfiguration",
		"apiextensions.k8s.io/v1":              "CustomResourceDefinition",
		"apiregistration.k8s.io/v1":            "APIService",
		"admissionregistration.k8s.io/v1":      "MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
		"admissionregistration.k8s.io/v1beta1": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
		"networking.istio.io/v1":               "ProxyConfig WorkloadEntry WorkloadGroup",
		"networking.istio.io/v1beta1":          "ProxyConfig WorkloadEntry WorkloadGroup",
		"networking.istio.io/v1alpha3":         "EnvoyFilter WorkloadEntry WorkloadGroup",
		"security.istio.io/v1":                 "RequestAuthentication",
		"security.istio.io/v1beta1":            "RequestAuthentication",
		"telemetry.istio.io/v1":                "Telemetry",
		"telemetry.istio.io/v1alpha1":          "Telemetry",
		"extensions.istio.io/v1alpha1":         "TrafficExtension WasmPlugin",
		"install.istio.io/v1alpha1":            "IstioOperator",
		"gateway.networking.k8s.io/v1":         "BackendTLSPolicy GRPCRoute Gateway GatewayClass HTTPRoute ListenerSet TLSRoute",
		"gateway.networking.k8s.io/v1beta1":    "Gateway GatewayClass HTTPRoute ReferenceGrant",
		"gateway.networking.k8s.io/v1alpha2":   "TCPRoute TLSRoute UDPRoute",
	}
	kinds := map[string][]string{}
	for version, names := range byVersion {
		for name := range strings.FieldsSeq(names) {
			kinds[name] = append(kinds[name], version)
		}
	}
	for _, versions := range kinds {
		slices.SortFunc(versions, compareVersions)
	}
	return kinds
}

// compareVersions puts the stable version of a group before its betas and alphas.
func compareVersions(a, b string) int {
	if d := strings.Compare(groupOf(a), groupOf(b)); d != 0 {
		return d
	}
	if len(a) != len(b) { // "v1" is shorter than "v1beta1", which is shorter than "v1alpha3"
		return len(a) - len(b)
	}
	return strings.Compare(b, a)
}

func groupOf(apiVersion string) string {
	group, _, found := strings.Cut(apiVersion, "/")
	if !found {
		return ""
	}
	return group
}

// verdict is what the catalogue says about a pair of apiVersion and kind.
type verdict struct {
	resource *usedKind // set when Lateen reads it
	unused   string    // set when it exists, or may exist, and Lateen does not use it
	// Otherwise the pair is wrong in the field named, and the message says how.
	field, message, want string
}

// Reads tells whether Lateen reads objects of a kind in a version such as "networking.istio.io/v1".
func Reads(apiVersion, kind string) bool {
	return theCatalogue().look(apiVersion, kind).resource != nil
}

// look tells what an apiVersion and a kind, both given, stand for.
func (c *catalogue) look(apiVersion, kind string) verdict {
	if r, ok := c.resources[source.Kind(kind)]; ok && slices.Contains(r.versions, apiVersion) {
		return verdict{resource: r}
	}
	versions, known := c.versions[kind]
	if slices.Contains(versions, apiVersion) {
		text := fmt.Sprintf("%s of %s is not used by Lateen (yet)", kind, apiVersion)
		if unusedSeverity(kind) == source.Error {
			text += ": it is not enforced"
		}
		return verdict{unused: text}
	}
	group := groupOf(apiVersion)
	if strings.Contains(group, ".") && !slices.Contains(c.groups, group) {
		if near := nearest(group, c.groups); near != "" {
			return verdict{field: "apiVersion", message: "unknown API group", want: c.wantVersion(kind, near)}
		}
		return verdict{unused: fmt.Sprintf("%s of %s is not used by Lateen: it is no API of Kubernetes or Istio", kind, apiVersion)}
	}
	if known {
		return verdict{field: "apiVersion", message: "there is no " + kind + " in this version", want: c.wantVersion(kind, group)}
	}
	if item, ok := strings.CutSuffix(kind, "List"); ok && c.versions[item] != nil {
		return verdict{field: "kind", message: "a list of one kind", want: "List with apiVersion v1"}
	}
	if near := nearest(kind, c.kinds); near != "" {
		want := near
		if !slices.Contains(c.versions[near], apiVersion) {
			want += " with apiVersion " + oneOf(c.versions[near])
		}
		return verdict{field: "kind", message: "unknown kind", want: want}
	}
	return verdict{field: "kind", message: "unknown kind for apiVersion " + apiVersion, want: "one of " + strings.Join(c.used(), ", ")}
}

// wantVersion gives the versions of a kind in a group; those in any group when it has none; of an unknown kind, the
// group alone.
func (c *catalogue) wantVersion(kind, group string) string {
	all := c.versions[kind]
	if all == nil {
		return "the group " + group
	}
	same := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return groupOf(v) != group })
	if len(same) == 0 {
		return oneOf(all)
	}
	return oneOf(same)
}

// used are the kinds that Lateen reads.
func (c *catalogue) used() []string {
	var kinds []string
	for kind := range c.resources {
		kinds = append(kinds, string(kind))
	}
	slices.Sort(kinds)
	return kinds
}
