package lab

import "strings"

// omitted is a published figure or table that no lab has a row for.
type omitted struct{ published, why, instead string }

// withoutRows returns the end of the page: what no lab has a row for. Its links are those of docs.
func withoutRows() string {
	var b strings.Builder
	b.WriteString("\n## What has no row, and why\n\n" +
		"| published | why it has no row | what there is in its place |\n|---|---|---|\n")
	for _, o := range allOmitted() {
		b.WriteString("| " + o.published + " | " + o.why + " | " + o.instead + " |\n")
	}
	return b.String()
}

const (
	costOfACheck  = "[the cost of a check](mixer.md#what-it-costs)"
	costOfReports = "(performance.md#what-metrics-logs-and-traces-cost)"
)

func allOmitted() []omitted {
	return []omitted{
		{
			published: "KubeCon: CPU of istio-proxy (5m to 7m), CPU and memory of ingress gateways (3m to 205m, 22 " +
				"to 498 MiB)",
			why:     "the requests that they had are not published",
			instead: "[sizing](sizing.md#proxies): both for each 1,000 requests a second",
		}, {
			published: "KubeCon: citadel, galley, sidecar injector",
			why: "Lateen's control plane is one process. In the lab it is asked for no certificates, injections or " +
				"reviews",
			instead: "[the CPU of a certificate](performance.md#tls-and-certificates)",
		}, {
			published: "KubeCon: policy and telemetry, idle and under load",
			why:       "there is no Mixer: external authorizers check, and proxies keep the metrics",
			instead:   costOfACheck + ", [of metrics]" + costOfReports,
		}, {
			published: "KubeCon: the table of knobs (age of connections, concurrency, telemetry filters, tracing, " +
				"autoscaling)",
			why: "it is advice without figures",
			instead: "[what concurrency, metrics, logs and traces cost]" + costOfReports +
				"; [age and autoscaling](guides/operate.md#high-availability) are values of the chart",
		}, {
			published: "KubeCon: six pilots of 4 vCPU and 4 GB; Istio 1.13: one of 1 vCPU and 1.5 GB",
			why:       "these are recommendations",
			instead:   "[what these meshes need](sizing.md#what-some-meshes-need)",
		}, {
			published: "Istio 0.7.1: a Mixer pod takes 0.5 vCPU for 1,000 requests a second",
			why:       "there is no Mixer",
			instead:   costOfACheck,
		}, {
			published: "Istio 0.7.1: mutual TLS costs next to nothing",
			why:       "it has no figure",
			instead:   "`lateen perf data-plane`, with and without `--mutual-tls=false`",
		}, {
			published: "AKS: charts of latency over several numbers of connections",
			why:       "they have no digits",
			instead:   "`lateen perf data-plane --preset aks --connections 2,4,8,16,32,64`",
		},
	}
}
