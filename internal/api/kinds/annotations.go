package kinds

// The annotations that conversions read.
const (
	ExportAnnotation       = "networking.istio.io/exportTo"
	DistributionAnnotation = "networking.istio.io/traffic-distribution"
	TopologyAnnotation     = "service.kubernetes.io/topology-mode"
	HintsAnnotation        = "service.kubernetes.io/topology-aware-hints"
	ClassAnnotation        = "kubernetes.io/ingress.class"
	// IdentitiesAnnotation and AccountsAnnotation list identities that run a Service beside those
	// of its pods: as they stand in certificates, and as service accounts of the namespace.
	IdentitiesAnnotation = "alpha.istio.io/canonical-serviceaccounts"
	AccountsAnnotation   = "alpha.istio.io/kubernetes-serviceaccounts"
	// HealthAnnotation marks WorkloadEntries whose health somebody reports in their status.
	HealthAnnotation = "proxy.istio.io/health-checks-enabled"
	// TemplatesAnnotation lists the injection templates of a pod. That of a gateway is "gateway".
	TemplatesAnnotation = "inject.istio.io/templates"
	// ServiceTypeAnnotation says the type of the Service that is deployed for a Gateway.
	ServiceTypeAnnotation = "networking.istio.io/service-type"
	// ReferencedAnnotation lists hosts that an EnvoyFilter's patches call, as "host" or
	// "namespace/host".
	ReferencedAnnotation = "envoyfilter.istio.io/referenced-services"
	// ProtectsAnnotation says of an EnvoyFilter that the filters which it adds are there to
	// protect: nothing passes where one of them cannot be had.
	ProtectsAnnotation = "lateen.io/protects"
	// WarnsAtAnnotation and RefusedAtAnnotation say of a namespace from how many proxies on a
	// change of an object in it is warned of, and refused.
	WarnsAtAnnotation   = "lateen.io/change-warns-at"
	RefusedAtAnnotation = "lateen.io/change-refused-at"
	// OverBudgetAnnotation with the value "allow" has an object stored that reaches more proxies
	// than that. The webhook alone reads it.
	OverBudgetAnnotation = "lateen.io/over-budget"
	// RegisteredAnnotation is on a WorkloadEntry that the control plane wrote for a machine, with
	// the WorkloadGroup of that. History reads it, and no conversion.
	RegisteredAnnotation = "istio.io/autoRegistrationGroup"
	// DryRunAnnotation turns an AuthorizationPolicy into one that decides nothing.
	DryRunAnnotation = "istio.io/dry-run"
	// AppAddressAnnotation and OutboundAddressAnnotation give a pod of a local mesh its own
	// loopback addresses.
	AppAddressAnnotation      = "lateen.io/app-address"
	OutboundAddressAnnotation = "lateen.io/outbound-address"
)

// PortTranslationLabel marks Services whose ports say nothing about the ports of Gateways: gateways
// that the Service selects bind what the Gateway says.
const PortTranslationLabel = "experimental.istio.io/disable-gateway-port-translation"

// ProxyContainer is the name of the container with a pod's proxy.
const ProxyContainer = "istio-proxy"

// UsedAnnotations returns the annotations that conversions read. A source may leave out all others.
func UsedAnnotations() []string {
	return []string{
		ExportAnnotation, DistributionAnnotation, TopologyAnnotation, HintsAnnotation,
		AppAddressAnnotation, OutboundAddressAnnotation, ClassAnnotation, HealthAnnotation, TemplatesAnnotation,
		DryRunAnnotation, ServiceTypeAnnotation, IdentitiesAnnotation, AccountsAnnotation, ReferencedAnnotation,
		ProtectsAnnotation, WarnsAtAnnotation, RefusedAtAnnotation, RegisteredAnnotation,
	}
}
