package spec

import (
	"maps"
	"slices"
)

// pluginValues takes what values say of Istio's CNI plugin. Below cni, Istio's chart istiod has two
// that are pilot's, and an IstioOperator those of the chart cni. istio_cni is an older name.
func (r *Reader) pluginValues(path string, given map[string]any) {
	of, ok := given["cni"].(map[string]any)
	if ok {
		kept := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if r.schema.Names("pilot", "cni", name) {
				kept[name] = of[name]
			} else {
				r.leavesAs(join(path, "cni."+name), of[name], ofPlugin)
			}
		}
		given["cni"] = kept
	}
	older, _ := given["istio_cni"].(map[string]any)
	if enabled, set := older["enabled"].(bool); set {
		r.intoPilot(enabled, given)
		rest := maps.Clone(older)
		if delete(rest, "enabled"); len(rest) > 0 {
			given["istio_cni"] = rest
		} else {
			delete(given, "istio_cni")
		}
	}
}

// intoPilot sets pilot.cni.enabled of values where they do not.
func (r *Reader) intoPilot(enabled bool, values map[string]any) {
	values["pilot"] = merge(map[string]any{"cni": map[string]any{"enabled": enabled}}, object(values["pilot"]))
}

// componentPlugin reads components.cni: who installs the plugin with Istio has it used.
func (r *Reader) componentPlugin(of fields) {
	if !of.bool("enabled", false) {
		return
	}
	r.intoPilot(true, r.values)
	r.note(of.at("enabled"), true, "pilot.cni.enabled: the plugin itself is installed with Istio's chart cni "+
		"(docs/guides/cni.md)")
}
