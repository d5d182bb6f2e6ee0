package kinds

import (
	extensionsv1alpha1 "istio.io/client-go/pkg/apis/extensions/v1alpha1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingv1alpha3 "istio.io/client-go/pkg/apis/networking/v1alpha3"
	networkingv1beta1 "istio.io/client-go/pkg/apis/networking/v1beta1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	telemetryv1 "istio.io/client-go/pkg/apis/telemetry/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingk8s "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
)

// The groups of Istio's API.
const (
	NetworkingGroup = "networking.istio.io"
	SecurityGroup   = "security.istio.io"
	TelemetryGroup  = "telemetry.istio.io"
	ExtensionsGroup = "extensions.istio.io"
)

// LateenGroup is the group of Lateen's own kinds.
const LateenGroup = ratelimit.Group

// IstioGroups returns the groups of Istio's API, in the order of their names.
func IstioGroups() []string {
	return []string{ExtensionsGroup, NetworkingGroup, SecurityGroup, TelemetryGroup}
}

// ValidatedGroups returns the groups of whose objects the webhook decides whether they may be
// stored, in the order of their names.
func ValidatedGroups() []string {
	return []string{ExtensionsGroup, LateenGroup, NetworkingGroup, SecurityGroup, TelemetryGroup}
}

// RevisionLabel says which control plane an object is for.
const RevisionLabel = "istio.io/rev"

// TagLabel is on the objects that make a revision tag, with its name: they say by their
// RevisionLabel which revision it stands for.
const TagLabel = "istio.io/tag"

// HelmRelease is the annotation with the name of the Helm release that has made an object.
const HelmRelease = "meta.helm.sh/release-name"

// The kinds that Lateen reads.
const (
	Namespace      Kind = "Namespace"
	ConfigMap      Kind = "ConfigMap"
	Node           Kind = "Node"
	Service        Kind = "Service"
	EndpointSlice  Kind = "EndpointSlice"
	Pod            Kind = "Pod"
	Ingress        Kind = "Ingress"
	IngressClass   Kind = "IngressClass"
	Secret         Kind = "Secret"
	ServiceAccount Kind = "ServiceAccount"
	Deployment     Kind = "Deployment"
	StatefulSet    Kind = "StatefulSet"
	DaemonSet      Kind = "DaemonSet"
	Job            Kind = "Job"
	Endpoints      Kind = "Endpoints"

	Gateway               Kind = "Gateway"
	VirtualService        Kind = "VirtualService"
	DestinationRule       Kind = "DestinationRule"
	ServiceEntry          Kind = "ServiceEntry"
	WorkloadEntry         Kind = "WorkloadEntry"
	WorkloadGroup         Kind = "WorkloadGroup"
	Sidecar               Kind = "Sidecar"
	AuthorizationPolicy   Kind = "AuthorizationPolicy"
	PeerAuthentication    Kind = "PeerAuthentication"
	RequestAuthentication Kind = "RequestAuthentication"
	Telemetry             Kind = "Telemetry"
	ProxyConfig           Kind = "ProxyConfig"
	EnvoyFilter           Kind = "EnvoyFilter"
	WasmPlugin            Kind = "WasmPlugin"
	TrafficExtension      Kind = "TrafficExtension"
	RateLimit             Kind = "RateLimit"

	GatewayClass Kind = "GatewayClass"
	// KubernetesGateway is the Gateway of the Gateway API. Its group is a part of the name, because
	// Istio has a kind of this name too.
	KubernetesGateway Kind = "Gateway." + GatewayAPIGroup
	HTTPRoute         Kind = "HTTPRoute"
	GRPCRoute         Kind = "GRPCRoute"
	TLSRoute          Kind = "TLSRoute"
	TCPRoute          Kind = "TCPRoute"
	ReferenceGrant    Kind = "ReferenceGrant"
	BackendTLSPolicy  Kind = "BackendTLSPolicy"
	ListenerSet       Kind = "ListenerSet"
)

// table has a line for each kind that Lateen reads.
func table() []Descriptor {
	core := API{Versions: []string{"v1"}}
	apps := API{Group: appsv1.GroupName, Versions: []string{"v1"}}
	batch := API{Group: batchv1.GroupName, Versions: []string{"v1"}}
	discovery := API{Group: discoveryv1.GroupName, Versions: []string{"v1"}}
	kubernetes := API{Group: networkingk8s.GroupName, Versions: []string{"v1"}}
	networking := API{Group: NetworkingGroup, Versions: []string{"v1", "v1beta1", "v1alpha3"}, Custom: true}
	patches := API{Group: NetworkingGroup, Versions: []string{"v1alpha3"}, Custom: true}
	extensions := API{Group: ExtensionsGroup, Versions: []string{"v1alpha1"}, Custom: true}
	starts := API{Group: NetworkingGroup, Versions: []string{"v1beta1", "v1"}, Custom: true}
	security := API{Group: SecurityGroup, Versions: []string{"v1", "v1beta1"}, Custom: true}
	telemetry := API{Group: TelemetryGroup, Versions: []string{"v1", "v1alpha1"}, Custom: true}
	gateways := API{Group: GatewayAPIGroup, Versions: []string{"v1", "v1beta1"}, Custom: true}
	grpc := API{Group: GatewayAPIGroup, Versions: []string{"v1", "v1alpha2"}, Custom: true}
	tls := API{Group: GatewayAPIGroup, Versions: []string{"v1", "v1alpha3", "v1alpha2"}, Custom: true}
	own := API{Group: LateenGroup, Versions: []string{ratelimit.Version}, Custom: true}
	stable := API{Group: GatewayAPIGroup, Versions: []string{"v1"}, Custom: true}
	grants := API{Group: GatewayAPIGroup, Versions: []string{"v1beta1", "v1"}, Custom: true}

	return []Descriptor{
		{
			Kind: Namespace, API: core, Resource: "namespaces", New: object[corev1.Namespace],
			ClusterScoped: true, Names: DNSLabel,
		},
		{
			Kind: ConfigMap, API: core, Resource: "configmaps", New: object[corev1.ConfigMap],
			Watch: Watch{MeshConfigOnly: true},
		},
		{ // Without Nodes, pods have no locality but their own labels'.
			Kind: Node, API: core, Resource: "nodes", New: object[corev1.Node],
			ClusterScoped: true, Watch: Watch{Optional: true}, RegistryType: "Nodes",
		},
		{
			Kind: Service, API: core, Resource: "services", New: object[corev1.Service],
			Names: ServiceName, Watch: Watch{CountsSame: true}, DependsOnMesh: true, RegistryType: "Services",
		},
		{
			Kind: EndpointSlice, API: discovery, Resource: "endpointslices", New: object[discoveryv1.EndpointSlice],
			Watch: Watch{CountsSame: true}, RegistryType: "EndpointSlice",
		},
		{ // A Pod that has ended means nothing; for the watch it is deleted then.
			Kind: Pod, API: core, Resource: "pods", New: object[corev1.Pod],
			Watch:        Watch{Fields: "status.phase!=Succeeded,status.phase!=Failed", CountsSame: true},
			RegistryType: "Pods",
		},
		{
			Kind: Ingress, API: kubernetes, Resource: "ingresses", New: object[networkingk8s.Ingress],
			Watch: Watch{Optional: true}, DependsOnMesh: true, Status: Address,
		},
		{
			Kind: IngressClass, API: kubernetes, Resource: "ingressclasses", New: object[networkingk8s.IngressClass],
			ClusterScoped: true, Watch: Watch{Optional: true},
		},
		{ // Without Secrets, servers that name them stay closed.
			Kind: Secret, API: core, Resource: "secrets", New: object[corev1.Secret],
			Watch: Watch{Fields: otherSecrets, Optional: true},
		},
		{
			Kind: ServiceAccount, API: core, Resource: "serviceaccounts", New: object[corev1.ServiceAccount],
			LocalOnly: true,
		},
		{
			Kind: Deployment, API: apps, Resource: "deployments", New: object[appsv1.Deployment],
			LocalOnly: true,
		},
		{
			Kind: StatefulSet, API: apps, Resource: "statefulsets", New: object[appsv1.StatefulSet],
			LocalOnly: true,
		},
		{
			Kind: DaemonSet, API: apps, Resource: "daemonsets", New: object[appsv1.DaemonSet],
			LocalOnly: true,
		},
		{
			Kind: Job, API: batch, Resource: "jobs", New: object[batchv1.Job],
			LocalOnly: true,
		},
		{ // A cluster mirrors them into EndpointSlices; those of manifests are mirrored by source/mirror.
			Kind: Endpoints, API: core, Resource: "endpoints",
			New:       object[corev1.Endpoints], //nolint:staticcheck // deprecated, and still in manifests
			LocalOnly: true,
		},
		istio(Descriptor{
			Kind: Gateway, API: networking, Resource: "gateways", New: object[networkingv1.Gateway],
			DependsOnMesh: true,
		}),
		istio(Descriptor{
			Kind: VirtualService, API: networking, Resource: "virtualservices",
			New: object[networkingv1.VirtualService], DependsOnMesh: true,
		}),
		istio(Descriptor{
			Kind: DestinationRule, API: networking, Resource: "destinationrules",
			New: object[networkingv1.DestinationRule], DependsOnMesh: true,
		}),
		istio(Descriptor{
			Kind: ServiceEntry, API: networking, Resource: "serviceentries", New: object[networkingv1.ServiceEntry],
			DependsOnMesh: true,
		}),
		istio(Descriptor{
			Kind: WorkloadEntry, API: networking, Resource: "workloadentries", New: object[networkingv1.WorkloadEntry],
			Watch: Watch{Labels: true, Condition: "Healthy"},
		}),
		istio(Descriptor{
			Kind: WorkloadGroup, API: networking, Resource: "workloadgroups", New: object[networkingv1.WorkloadGroup],
			Watch: Watch{Optional: true},
		}),
		istio(Descriptor{
			Kind: Sidecar, API: networking, Resource: "sidecars", New: object[networkingv1.Sidecar],
			DependsOnMesh: true,
		}),
		istio(Descriptor{
			Kind: AuthorizationPolicy, API: security, Resource: "authorizationpolicies",
			New: object[securityv1.AuthorizationPolicy], Protects: true, DependsOnMesh: true,
		}),
		istio(Descriptor{
			Kind: PeerAuthentication, API: security, Resource: "peerauthentications",
			New: object[securityv1.PeerAuthentication], Protects: true, DependsOnMesh: true,
		}),
		istio(Descriptor{
			Kind: RequestAuthentication, API: security, Resource: "requestauthentications",
			New: object[securityv1.RequestAuthentication], Protects: true,
		}),
		istio(Descriptor{
			Kind: Telemetry, API: telemetry, Resource: "telemetries", New: object[telemetryv1.Telemetry],
			DependsOnMesh: true,
		}),
		istio(Descriptor{
			Kind: ProxyConfig, API: starts, Resource: "proxyconfigs", New: object[networkingv1beta1.ProxyConfig],
		}),
		istio(Descriptor{
			Kind: EnvoyFilter, API: patches, Resource: "envoyfilters", New: object[networkingv1alpha3.EnvoyFilter],
			Watch: Watch{Optional: true},
		}),
		istio(Descriptor{
			Kind: WasmPlugin, API: extensions, Resource: "wasmplugins", New: object[extensionsv1alpha1.WasmPlugin],
			Watch: Watch{Optional: true},
		}),
		istio(Descriptor{
			Kind: TrafficExtension, API: extensions, Resource: "trafficextensions",
			New: object[extensionsv1alpha1.TrafficExtension], Watch: Watch{Optional: true},
		}),
		istio(Descriptor{ // Lateen's own
			Kind: RateLimit, API: own, Resource: "ratelimits", New: object[ratelimit.RateLimit],
			Watch: Watch{Optional: true}, DependsOnMesh: true,
		}),
		gatewayAPI(Descriptor{
			Kind: GatewayClass, API: gateways, Resource: "gatewayclasses", New: object[gatewayv1.GatewayClass],
			ClusterScoped: true, Status: Attachments,
		}),
		gatewayAPI(Descriptor{
			Kind: KubernetesGateway, API: gateways, Resource: "gateways", New: object[gatewayv1.Gateway],
			DependsOnMesh: true, Status: Attachments, Watch: Watch{Labels: true},
		}),
		gatewayAPI(Descriptor{
			Kind: HTTPRoute, API: gateways, Resource: "httproutes", New: object[gatewayv1.HTTPRoute],
			DependsOnMesh: true, Status: Attachments,
		}),
		gatewayAPI(Descriptor{
			Kind: GRPCRoute, API: grpc, Resource: "grpcroutes", New: object[gatewayv1.GRPCRoute],
			DependsOnMesh: true, Status: Attachments,
		}),
		gatewayAPI(Descriptor{
			Kind: TLSRoute, API: tls, Resource: "tlsroutes", New: object[gatewayv1.TLSRoute],
			DependsOnMesh: true, Status: Attachments,
		}),
		gatewayAPI(Descriptor{
			Kind: TCPRoute, API: grpc, Resource: "tcproutes", New: object[gatewayv1.TCPRoute],
			DependsOnMesh: true, Status: Attachments,
		}),
		gatewayAPI(Descriptor{
			Kind: BackendTLSPolicy, API: stable, Resource: "backendtlspolicies",
			New: object[gatewayv1.BackendTLSPolicy], DependsOnMesh: true, Status: Attachments,
		}),
		gatewayAPI(Descriptor{
			Kind: ListenerSet, API: stable, Resource: "listenersets", New: object[gatewayv1.ListenerSet],
			DependsOnMesh: true, Status: Attachments,
		}),
		gatewayAPI(Descriptor{ // it has no status
			Kind: ReferenceGrant, API: grants, Resource: "referencegrants", New: object[gatewayv1.ReferenceGrant],
		}),
	}
}

// otherSecrets is the field selector that leaves out Secrets that are surely not for TLS.
const otherSecrets = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token," +
	"type!=kubernetes.io/dockercfg,type!=kubernetes.io/dockerconfigjson,type!=bootstrap.kubernetes.io/token"

// istio adds what all kinds of Istio's API have in common.
func istio(d Descriptor) Descriptor {
	d.Watch.Revisioned = true
	d.Status = Conditions
	d.ConfigEvents = true
	return d
}

// gatewayAPI adds what all kinds of the Gateway API have in common. A cluster may lack any of them,
// and rights to them.
func gatewayAPI(d Descriptor) Descriptor {
	d.Watch.Revisioned, d.Watch.Optional = true, true
	d.ConfigEvents = true
	return d
}

// object makes an empty object.
func object[T any, P interface {
	*T
	metav1.Object
}]() metav1.Object {
	return P(new(T))
}

// unread has the kinds of Kubernetes, Istio and the Gateway API that manifests hold and that Lateen
// does not read, by apiVersion.
func unread() map[string]string {
	return map[string]string{
		"v1":                          "ReplicationController",
		"apps/v1":                     "ReplicaSet",
		"batch/v1":                    "CronJob",
		"networking.k8s.io/v1":        "NetworkPolicy",
		"install.istio.io/v1alpha1":   "IstioOperator",
		GatewayAPIGroup + "/v1":       "UDPRoute",
		GatewayAPIGroup + "/v1alpha2": "UDPRoute",
	}
}

// beside has the kinds of Kubernetes that stand in manifests beside those of a mesh, which has
// nothing to do with them, by apiVersion.
func beside() map[string]string {
	return map[string]string{
		"v1": "Binding ComponentStatus Event LimitRange PersistentVolume PersistentVolumeClaim PodTemplate " +
			"ResourceQuota",
		"apps/v1":                      "ControllerRevision",
		"autoscaling/v2":               "HorizontalPodAutoscaler",
		"autoscaling/v1":               "HorizontalPodAutoscaler Scale",
		"policy/v1":                    "Eviction PodDisruptionBudget",
		"rbac.authorization.k8s.io/v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
		"networking.k8s.io/v1":         "IPAddress ServiceCIDR",
		"storage.k8s.io/v1": "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment " +
			"VolumeAttributesClass",
		"scheduling.k8s.io/v1":            "PriorityClass",
		"node.k8s.io/v1":                  "RuntimeClass",
		"coordination.k8s.io/v1":          "Lease",
		"certificates.k8s.io/v1":          "CertificateSigningRequest",
		"certificates.k8s.io/v1beta1":     "ClusterTrustBundle",
		"events.k8s.io/v1":                "Event",
		"resource.k8s.io/v1":              "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
		"flowcontrol.apiserver.k8s.io/v1": "FlowSchema PriorityLevelConfiguration",
		"apiextensions.k8s.io/v1":         "CustomResourceDefinition",
		"apiregistration.k8s.io/v1":       "APIService",
		"admissionregistration.k8s.io/v1": "MutatingWebhookConfiguration ValidatingAdmissionPolicy " +
			"ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
		"admissionregistration.k8s.io/v1beta1": "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding",
	}
}
