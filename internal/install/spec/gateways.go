package spec

// enabled is whether a gateway is installed: what is given stands above the profile.
type enabled uint8

const (
	unset enabled = iota
	yes
	no
)

// The gateways that Istio's profiles have.
const (
	ingressGateway = "istio-ingressgateway"
	egressGateway  = "istio-egressgateway"
)

// accountSuffix ends the names of gateways' service accounts, as Istio's and Maistra's operators
// make them: policies name the identities.
const accountSuffix = "-service-account"

type gateway struct {
	Gateway
	enabled enabled
}

// gateway returns the one of a name. One without a namespace is the same as one in any.
func (r *Reader) gateway(name, namespace string) *gateway {
	for _, g := range r.gateways {
		if g.Name == name && (g.Namespace == namespace || g.Namespace == "" || namespace == "") {
			if namespace != "" {
				g.Namespace = namespace
			}
			return g
		}
	}
	g := &gateway{Gateway: Gateway{Name: name, Namespace: namespace, Values: map[string]any{}}}
	put(g.Values, "serviceAccount.name", name+accountSuffix)
	if name == egressGateway {
		put(g.Values, "service.type", "ClusterIP")
	}
	r.gateways = append(r.gateways, g)
	return g
}

func (g *gateway) enable(on bool) { g.enabled = whether(on) }

// gatewayValues reads values.gateways of Istio's charts before 1.21: a gateway by its name.
func (r *Reader) gatewayValues(f fields) {
	for _, name := range []string{ingressGateway, egressGateway} {
		if !f.has(name) {
			continue
		}
		g, of := r.gateway(name, ""), f.below(name)
		if of.has("enabled") {
			g.enable(of.bool("enabled", true))
		}
		of.to(g.Values, "autoscaleEnabled", "autoscaling.enabled", "autoscaleMin", "autoscaling.minReplicas",
			"autoscaleMax", "autoscaling.maxReplicas", "replicaCount", "replicaCount", "type", "service.type",
			"ports", "service.ports", "serviceAnnotations", "service.annotations", "loadBalancerIP",
			"service.loadBalancerIP", "loadBalancerSourceRanges", "service.loadBalancerSourceRanges",
			"externalTrafficPolicy", "service.externalTrafficPolicy", "resources", "resources", "env", "env",
			"nodeSelector", "nodeSelector", "tolerations", "tolerations", "podAnnotations", "podAnnotations",
			"labels", "labels", "ipFamilies", "service.ipFamilies", "ipFamilyPolicy", "service.ipFamilyPolicy",
			"additionalContainers", "additionalContainers", "rollingMaxSurge", "strategy.rollingUpdate.maxSurge",
			"rollingMaxUnavailable", "strategy.rollingUpdate.maxUnavailable")
		for _, c := range [][2]string{{"cpu", "CPU"}, {"memory", "Memory"}} {
			target := of.below(c[0])
			target.to(g.Values, "targetAverageUtilization", "autoscaling.target"+c[1]+"UtilizationPercentage")
			target.reportUnread()
		}
		account := of.below("serviceAccount")
		account.to(g.Values, "annotations", "serviceAccount.annotations")
		account.reportUnread()
		of.ignore("name")
		of.reportUnread()
	}
	f.to(r.values, "securityContext", "gateways.securityContext", "seccompProfile", "gateways.seccompProfile")
	f.reportUnread()
}
