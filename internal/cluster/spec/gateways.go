package spec

import (
	"slices"
	"strings"
)

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
	if name == egressGateway {
		put(g.Values, "service.type", "ClusterIP")
	}
	r.gateways = append(r.gateways, g)
	return g
}

func (g *gateway) enable(on bool) {
	g.enabled = no
	if on {
		g.enabled = yes
	}
}

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
			"labels", "labels")
		cpu := of.below("cpu")
		cpu.to(g.Values, "targetAverageUtilization", "autoscaling.targetCPUUtilizationPercentage")
		cpu.reportUnread()
		of.ignore("name")
		of.reportUnread()
	}
	f.reportUnread()
}

// profile is one of istioctl's: the gateways and values that it adds.
type profile struct {
	ingress, egress bool
	values, gateway map[string]any
}

func profiles() map[string]profile {
	small := map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "40Mi"}}
	return map[string]profile{
		"minimal": {},
		"default": {ingress: true},
		"demo": {
			ingress: true, egress: true,
			values: map[string]any{
				"meshConfig": map[string]any{"accessLogFile": "/dev/stdout"},
				"pilot":      map[string]any{"autoscaleEnabled": false, "replicaCount": int64(1)},
				"global":     map[string]any{"proxy": map[string]any{"resources": small}},
			},
			gateway: map[string]any{
				"autoscaling": map[string]any{"enabled": false}, "replicaCount": int64(1), "resources": small,
			},
		},
	}
}

// applyProfile puts the profile beneath what is given.
func (r *Reader) applyProfile() {
	if r.profile == "" {
		return
	}
	all := profiles()
	p, known := all[r.profile]
	if !known {
		r.fail("profile = %q; want one of default, demo, minimal", r.profile)
		return
	}
	r.values = merge(p.values, r.values)
	for name, has := range map[string]bool{ingressGateway: p.ingress, egressGateway: p.egress} {
		if g := r.gateway(name, ""); has {
			if g.enabled == unset {
				g.enabled = yes
			}
			g.Values = merge(profiles()[r.profile].gateway, g.Values)
		}
	}
	slices.SortFunc(r.gateways, func(a, b *gateway) int { return strings.Compare(a.Name, b.Name) })
}
