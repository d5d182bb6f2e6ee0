package dataplane

import "github.com/lateen-mesh/lateen/internal/perf/traffic"

// Preset is a published test.
type Preset struct {
	Name, About string
	Set         func(o *Options)
}

// Presets returns the published tests.
func Presets() []Preset {
	return append([]Preset{
		{"aks", "Azure's Istio add-on: 1,000 a second, 16 connections, 100 bytes", fixed(1000, 16, 100)},
		{"istio-1.1.8", "Istio 1.1.8: 1,000 a second, 16 connections, 1 kB", fixed(1000, 16, 1000)},
		{"istio-0.7.1", "Istio 0.7.1: 400 a second, 8 connections, no body", fixed(400, 8, 0)},
		{"istio-tools", "istio/tools: 1,000 a second over 2 to 64 connections, 1 kB", func(o *Options) {
			fixed(1000, 16, 1024)(o)
			o.Connections = []int{2, 4, 8, 16, 32, 64}
		}},
	}, scenarioPresets()...)
}

// fixed is one load over HTTP/1.1 and mutual TLS.
func fixed(qps float64, connections, payload int) func(o *Options) {
	return func(o *Options) {
		o.Protocol, o.MutualTLS, o.Workers = traffic.HTTP1, true, 2
		o.QPS, o.Connections, o.Payload = []float64{qps}, []int{connections}, payload
	}
}

// Scenario is one of those that Istio 0.7.1 and its nightly run measured with Fortio, each at 400
// requests a second and at the most that there is (the guide of setup_perf_cluster.sh in
// istio/istio's tools). s1 is our client, and s2 our server.
type Scenario struct {
	Name string // that of Fortio's results
	QPS  float64
	Path string
}

// Scenarios returns all of them: first those at 400 requests a second.
func Scenarios() (all []Scenario) {
	for _, load := range []struct {
		name string
		qps  float64
	}{{"qps_400-", 400}, {"qps_max-", 0}} {
		for _, s := range []Scenario{
			{Name: "ingress_to_s1", Path: IngressClient}, {Name: "ingress_to_s2", Path: Ingress},
			{Name: "s1_to_s2", Path: Sidecar}, {Name: "s2_to_s1", Path: SidecarBack},
		} {
			all = append(all, Scenario{load.name + s.Name, load.qps, s.Path})
		}
	}
	return all
}

func scenarioPresets() (all []Preset) {
	for _, s := range Scenarios() {
		p := Preset{Name: s.Name, Set: func(o *Options) {
			fixed(s.QPS, 8, 0)(o)
			o.Paths = []string{s.Path}
		}}
		all = append(all, p)
	}
	all[0].About = "and seven more: the scenarios of Istio 0.7.1, by the names of Fortio's results (400 a second or " +
		"the most; ingress_to_s1, ingress_to_s2, s1_to_s2, s2_to_s1)"
	return all
}
