package spec

import (
	"slices"
	"strings"
)

// profile is one of istioctl's: the gateways and values that it adds.
type profile struct {
	ingress, egress bool
	// gatewaysOnly leaves out the control plane and Istio's kinds.
	gatewaysOnly    bool
	values, gateway map[string]any
	// refused says why the profile is not there, and what would be right.
	refused string
}

// The reasons why profiles are refused.
const (
	noAmbient = "it is for ambient mode, which is not served; want default, and sidecars"
	noRemote  = "it is for a cluster without a control plane, and Lateen reads one cluster; want default in each " +
		"cluster, with gateways and ServiceEntries between them"
)

func profiles() map[string]profile {
	small := map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "40Mi"}}
	return map[string]profile{
		"minimal": {},
		"empty":   {gatewaysOnly: true},
		"default": {ingress: true},
		"preview": {ingress: true, values: map[string]any{"meshConfig": map[string]any{
			"defaultConfig": map[string]any{"proxyMetadata": map[string]any{"ISTIO_META_DNS_CAPTURE": "true"}},
		}}},
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
		"ambient": {refused: noAmbient}, "openshift-ambient": {refused: noAmbient},
		"openshift": {ingress: true, values: map[string]any{"pilot": map[string]any{
			"cni": map[string]any{"enabled": true, "provider": "multus"},
		}}},
		"remote": {refused: noRemote}, "external": {refused: noRemote},
		"stable": {refused: "it installs an admission policy that refuses fields of Istio's unstable kinds, and " +
			"there is none; want default"},
	}
}

// applyProfile puts the profile beneath what is given.
func (r *Reader) applyProfile() {
	if r.profile == "" {
		return
	}
	all := profiles()
	p, known := all[r.profile]
	switch {
	case !known:
		r.fail("profile = %q; want one of %s", r.profile, strings.Join(served(all), ", "))
		return
	case p.refused != "":
		r.fail("profile = %q: %s", r.profile, p.refused)
		return
	}
	r.values = merge(p.values, r.values)
	if r.pilot == unset && p.gatewaysOnly {
		r.pilot = no
	}
	for name, has := range map[string]bool{ingressGateway: p.ingress, egressGateway: p.egress} {
		if has {
			g := r.gateway(name, "")
			if g.enabled == unset {
				g.enabled = yes
			}
			g.Values = merge(profiles()[r.profile].gateway, g.Values)
		}
	}
	slices.SortFunc(r.gateways, func(a, b *gateway) int { return strings.Compare(a.Name, b.Name) })
}

// served returns the names of the profiles that are not refused.
func served(all map[string]profile) []string {
	var names []string
	for name, p := range all {
		if p.refused == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// applyPilot leaves the control plane out where its component is off, as istioctl does. Istio's
// kinds stay out with it unless they are asked for.
func (r *Reader) applyPilot() {
	if r.pilot != no {
		return
	}
	r.spec.GatewaysOnly = true
	r.spec.SkipKinds = r.spec.SkipKinds || r.base != yes
	enabled := 0
	for _, g := range r.gateways {
		if g.enabled == yes {
			enabled++
		}
	}
	if enabled == 0 && r.spec.SkipKinds {
		r.fail("nothing is left to install without the control plane: want a gateway that is enabled, as " +
			"components.ingressGateways[0].enabled=true, or another profile")
	}
}
