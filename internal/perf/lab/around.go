package lab

import (
	"context"
	"fmt"
	"slices"
)

// Tools are the paths of programs that are measured beside a control plane. An empty one leaves its
// part out.
type Tools struct {
	// Kube is Kubernetes' control plane in one program, as make kube builds it.
	Kube string
	// Prometheus is measured, and Promtool writes blocks as Prometheus stores them.
	Prometheus, Promtool string
	// Rsyslogd ships access logs.
	Rsyslogd string
}

// The places of the tables.
const (
	apiServerTable = iota
	proxyTable
	prometheusTable
	blockTable
	reckonedTable
	logTable
)

func aroundLab() Lab {
	return Lab{
		Name:     "around",
		About:    "what the API server, a proxy's memory, Prometheus and access logs cost",
		Document: "AKS, KubeCon China 2019, and performance and scalability of Istio 0.7.1",
		Reproduces: "CPU and memory of the API server, memory of istio-proxy, CPU and memory of Prometheus, and the " +
			"cost of access logs that are shipped",
		Steps: []string{
			"kube-apiserver and etcd get 20,000 Pods of 1,000 Services; pods are replaced, without and with Lateen",
			"a real Envoy alone, then with the configuration of a mesh, with metrics, and after requests",
			"a real Prometheus scrapes proxies of KubeCon's mesh every 4 s and every second; promtool writes two " +
				"hours of their metrics as blocks",
			"two sidecars without access logs, with text and with JSON; rsyslogd ships these lines over TCP",
		},
		Scale:  0.05,
		tables: aroundTables,
		run:    runAround,
	}
}

func aroundTables() []Table {
	return slices.Concat([]Table{apiServerTableOf(), proxyTableOf()}, prometheusTables(), []Table{logTableOf()})
}

// aroundPart is what needs one program.
type aroundPart struct {
	name, needs string
	program     string // its path
	run         func(ctx context.Context) error
}

func runAround(ctx context.Context, r *run) error {
	for _, p := range []aroundPart{
		{"The API server", "kube-apiserver: make kube", r.Tools.Kube, r.measureAPIServer},
		{"A proxy's memory", "Envoy: make envoy", r.Envoy, r.measureProxy},
		{"Prometheus", "Prometheus: make prometheus", r.Tools.Prometheus, r.measurePrometheus},
		{"The cost of access logs", "Envoy: make envoy", r.Envoy, r.measureLogs},
	} {
		if p.program == "" {
			r.note("%s is not measured, since there is no %s puts it into .tools.", p.name, p.needs)
			continue
		}
		if err := p.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}
