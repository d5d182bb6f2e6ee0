package lab

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
)

// connectRate is how many sidecars begin to connect each second.
const connectRate = 1000

// scenario returns the options of a scenario of lateen perf with simulated sidecars.
func (r *run) scenario(mesh load.Shape, sidecars int) perf.Options {
	fleet := perf.Simulated{Log: slog.New(slog.DiscardHandler)}
	return perf.Options{
		Mesh: mesh, Sidecars: sidecars, ConnectRate: connectRate, Changes: 5, Rate: 1, StallTimeout: r.Patience,
		IdleTime: calm, Progress: r.Progress, Fleet: fleet.Fleet,
		Plane: func() controlplane.Plane { return r.plane() },
	}
}

// calm is how long the wire is silent at the end of a step.
const calm = 300 * time.Millisecond

// phase returns a phase of a report by its name.
func phase(report perf.Report, name string) (perf.Phase, error) {
	for _, p := range report.Phases {
		if p.Name == name {
			return p, nil
		}
	}
	return perf.Phase{}, fmt.Errorf("scenario %s has no phase %s", report.Scenario, name)
}

const aks = "Performance and scaling of Azure's Istio add-on (asm-1-19, Kubernetes 1.28.5, 16 vCPU)"

func churnLab() Lab {
	return Lab{
		Name:       "aks-churn",
		About:      "how many sidecars of one service are served while a share of them goes and comes",
		Document:   aks,
		Reproduces: "the tables of pod churn, with Azure CNI Overlay and with Cilium",
		Steps: []string{
			"all sidecars of one service connect to one control plane",
			"0 %: endpoints change. 25 % and 50 %: of so many sidecars some go with their pods, and come back under " +
				"other addresses, at the published rate",
		},
		Scale:    0.06,
		Sidecars: publishedSidecars()[0],
		tables:   churnTables,
		run:      runChurn,
	}
}

// churns are the published shares of sidecars that go and come, in percent.
func churns() []int { return []int{0, 25, 50} }

func churnTables() []Table {
	columns := []Column{
		{"churn rate (sidecars/s)", PerSecond}, {"sidecars", Count}, {"memory", Bytes}, {"CPU", Cores},
		{"change to sidecar, p99", Seconds},
	}
	overlay, cilium := Table{Title: "Azure CNI Overlay", Columns: columns}, Table{
		Title: "Azure CNI Overlay with Cilium", Columns: columns,
	}
	for i, published := range [][2][]string{
		{{"--", "25,000", "32.1 GB", "15"}, {"--", "30,000", "41.2 GB", "15"}},
		{{"31.2", "15,000", "22.2 GB", "15"}, {"41.7", "25,000", "36.1 GB", "16"}},
		{{"31.2", "15,000", "25.4 GB", "15"}, {"37.9", "25,000", "42.7 GB", "16"}},
	} {
		name := fmt.Sprintf("churn %d %%", churns()[i])
		overlay.Rows = append(overlay.Rows, row(name, len(columns), published[0]...))
		cilium.Rows = append(cilium.Rows, row(name, len(columns), published[1]...))
	}
	return []Table{overlay, cilium}
}

// publishedSidecars are those of the rows, and publishedRate is the rate of those with a churn,
// both without Cilium.
func publishedSidecars() []int { return []int{25_000, 15_000, 15_000} }

const publishedRate = 31.2

func runChurn(ctx context.Context, r *run) error {
	for i, percent := range churns() {
		sidecars := r.scaled(publishedSidecars()[i], 4)
		o := r.scenario(load.Shape{Namespaces: 1, Services: 1, Pods: sidecars}, sidecars)
		if percent > 0 {
			o.Rate = publishedRate
			o.MostChurned = int(publishedRate * r.churnTime().Seconds() / 2)
		}
		report, err := perf.Run(ctx, o, perf.Churn(percent))
		if err != nil {
			return err
		}
		c := report.Capacity[0]
		for t := range r.tables {
			r.tables[t].put(i, c.Rate, float64(c.Sidecars), float64(c.Memory), c.Cores, c.P99.Float())
		}
	}
	r.note("The published sidecars are the most that one istiod served. Ours are how many connected, all of " +
		"which were served: lateen perf churn --find-capacity searches for the most. One run fills both tables, " +
		"since no network plugin is part of it. The rate counts sidecars that go and that come. A churn ends " +
		"after 20 s, at the published size after two minutes, though not all of its share have been replaced. " +
		"Sidecars and control plane share this machine.")
	return nil
}

// churnTime is how long a churn may take.
func (r *run) churnTime() time.Duration {
	if r.Scale == 1 {
		return 2 * time.Minute
	}
	return 20 * time.Second
}

func servicesLab() Lab {
	return Lab{
		Name:       "aks-services",
		About:      "how many sidecars of 1,000 services are served",
		Document:   aks,
		Reproduces: "the tables of multiple services: sidecar capacity, CPU and memory",
		Steps:      []string{"all sidecars of 1,000 services connect", "a route changes five times"},
		Scale:      0.05,
		Sidecars:   20_000,
		tables:     servicesTables,
		run:        runServices,
	}
}

func servicesTables() []Table {
	columns := []Column{
		{"sidecars", Count}, {"istiod memory", Bytes}, {"istiod CPU", Cores}, {"change to sidecar, p99", Seconds},
	}
	return []Table{{Title: "1,000 services", Columns: columns, Rows: []Row{
		row("Azure CNI Overlay", len(columns), "20,000", "40.4 GB", "15"),
		row("Azure CNI Overlay with Cilium", len(columns), "20,000", "42.6 GB", "16"),
	}}}
}

func runServices(ctx context.Context, r *run) error {
	sidecars, services := r.scaled(20_000, 4), min(1000, r.scaled(20_000, 4))
	o := r.scenario(load.Shape{
		Namespaces: min(50, services), Services: services, Pods: max(sidecars, services), VirtualServices: 1,
	}, sidecars)
	report, err := perf.Run(ctx, o, perf.ManyServices())
	if err != nil {
		return err
	}
	c := report.Capacity[0]
	for i := range r.tables[0].Rows {
		r.tables[0].put(i, float64(c.Sidecars), float64(c.Memory), c.Cores, c.P99.Float())
	}
	r.note("The mesh is in memory: lab around has the published figures of the API server. CPU is " +
		"that of the time in which sidecars connect. lateen perf services --find-capacity searches for the most " +
		"sidecars.")
	return nil
}

func kubeconLab() Lab {
	return Lab{
		Name:       "kubecon",
		About:      "a mesh of 6,000 pods and 3,000 services in 100 namespaces, without and with isolated namespaces",
		Document:   "Istio Performance in Large Scale Cluster And Best Practices (KubeCon China 2019)",
		Reproduces: "the tables of Pilot's CPU, memory and connections",
		Steps: []string{
			"a third as many services without sidecars, and nobody connects yet",
			"all sidecars connect, and see everything; endpoints, routes and services change",
			"the same with one Sidecar that isolates namespaces, and a gateway in each",
		},
		Scale:    1,
		Sidecars: 6100,
		tables:   kubeconTables,
		run:      runKubecon,
	}
}

func kubeconTables() []Table {
	columns := []Column{
		{"connections", Count}, {"CPU", Cores}, {"memory of a replica", Bytes}, {"replicas", Count},
		{"change to sidecar, p99", Seconds},
	}
	return []Table{{Title: "The control plane", Columns: columns, Rows: []Row{
		row("services without sidecars alone", len(columns), "0", "0.172", "1,232 MiB", "1"),
		row("everybody sees everything", len(columns), "89 of 6,000", "0.223 to 1.069 a replica",
			"1,444 to 57,027 MiB", "5"),
		row("isolated namespaces", len(columns), "5,583 (1,066 to 1,178 a replica)", "2.2 to 3.3 a replica",
			"1,419 to 1,693 MiB", "5"),
	}}}
}

func runKubecon(ctx context.Context, r *run) error {
	sidecars, namespaces := r.scaled(6000, 6), r.scaled(100, 2)
	mesh := load.Shape{
		Namespaces: namespaces, Services: r.scaled(3000, 3), Pods: sidecars, VirtualServices: namespaces,
		UnmanagedNamespaces: namespaces, UnmanagedServices: r.scaled(1000, 2), UnmanagedPods: r.scaled(4000, 2),
	}
	for i, isolated := range []bool{false, true} {
		mesh.Isolated, mesh.Gateways = isolated, isolated
		o := r.scenario(mesh, sidecars)
		report, err := perf.Run(ctx, o, perf.Namespaces())
		if err != nil {
			return err
		}
		connect, err := phase(report, "connect")
		if err != nil {
			return err
		}
		changes, err := phase(report, string(perf.Endpoints))
		if err != nil {
			return err
		}
		memory := float64(max(connect.Peak, connect.Resident))
		p99 := 0.0
		if changes.Latency != nil {
			p99 = changes.Latency.P99.Float()
		}
		r.tables[0].put(1+i, float64(connect.Sidecars), connect.Cores(), memory, 1, p99)
		if i == 0 {
			loaded := report.Phases[0]
			r.tables[0].put(0, 0, loaded.Cores(), float64(loaded.Resident), 1)
		}
	}
	r.note("CPU is that of the time in which sidecars connect, or the mesh is read (first row; ours has all " +
		"services by then, also those with sidecars).")
	return nil
}
