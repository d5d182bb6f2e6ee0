package convert

import (
	"slices"

	mesh "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"
)

// metrics reads whether proxies keep Istio's standard metrics: they do while
// defaultProviders.metrics names a provider of Prometheus, or says nothing. Istio's chart names the
// one that every mesh has, so a configuration without the field is one that nobody has turned off.
// An empty list turns them off (hasEmptyMetrics).
func (r *reader) metrics(p path, in *mesh.MeshConfig) bool {
	known := append(prometheusProviders(in), defaultProvider)
	names := in.GetDefaultProviders().GetMetrics()
	on := len(names) == 0
	for i, name := range names {
		if slices.Contains(known, name) {
			on = true
			continue
		}
		r.fail(
			p.dot("defaultProviders.metrics").at(i), name,
			"is no provider of metrics that a stock Envoy has; nothing is counted for it",
			"the name of one of extensionProviders with prometheus, or "+defaultProvider,
		)
	}
	return on
}

// hasEmptyMetrics reports whether the mesh configuration has an empty list of providers, which is
// like none in Istio's message.
func hasEmptyMetrics(text string) bool {
	var config struct {
		DefaultProviders struct {
			Metrics *[]string `json:"metrics"`
		} `json:"defaultProviders"`
	}
	err := yaml.Unmarshal([]byte(text), &config)
	return err == nil && config.DefaultProviders.Metrics != nil && len(*config.DefaultProviders.Metrics) == 0
}
