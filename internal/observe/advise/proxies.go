package advise

import (
	"fmt"
	"slices"

	"github.com/lateen-mesh/lateen/internal/mesh/census"
)

const (
	// lookupsPerMinute is how often a proxy looks a name up: each minute, unless its record lives
	// for longer or shorter.
	lookupsPerMinute = 1
	// mostLookups is how many lookups a minute a mesh may cause before a finding says so: a
	// resolver of Kubernetes answers some thousand a second, and has others to answer.
	mostLookups = 3000
)

// lookupsOf returns the lookups of a service, each minute, by the proxies that see it.
func (d *diagnosis) lookupsOf(svc *census.Service, proxies map[string]int) (all, own float64) {
	for namespace, n := range proxies {
		if !svc.ExportTo.Visible(svc.Namespace, namespace) {
			continue
		}
		lookups := float64(n*svc.Lookups) * lookupsPerMinute
		all += lookups
		if d.Calls.ByNamespace[namespace][svc.Host] > 0 || d.Calls.Source == "" && namespace == svc.Namespace {
			own += lookups
		}
	}
	return all, own
}

// dns advises to keep names that are looked up from proxies that do not call them.
func (d *diagnosis) dns() []Finding {
	proxies := map[string]int{}
	for _, p := range d.Proxies {
		proxies[p.Namespace]++
	}
	if len(d.Proxies) == 0 {
		for _, n := range d.Census.Namespaces {
			proxies[n.Name] = n.Workloads + n.Gateways
		}
	}
	for _, n := range d.Census.Namespaces {
		if n.Sidecar != "" && n.Name != d.Census.RootNamespace {
			delete(proxies, n.Name) // that sees what it lists
		}
	}
	var before, after float64
	var names []string
	for i := range d.Census.Services {
		if svc := &d.Census.Services[i]; svc.Lookups > 0 {
			all, own := d.lookupsOf(svc, proxies)
			before, after = before+all, after+own
			if own < all {
				names = append(names, svc.Namespace+"/"+svc.Name)
			}
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); before <= mostLookups || len(names) == 0 {
		return nil
	}
	return []Finding{{
		Summary:  "each proxy looks up the names of all ServiceEntries that it sees, and calls few of them",
		Evidence: []Evidence{above("DNS lookups", before, mostLookups, "/min")},
		Effects:  []Effect{{What: "DNS lookups", Unit: "/min", Before: before, After: after}},
		Remedy: Remedy{Text: fmt.Sprintf("set spec.exportTo of these ServiceEntries to the namespaces that call them "+
			"(\".\": their own), or spec.resolution to NONE, which looks nothing up: %s. Records with a longer TTL "+
			"are looked up as much less often", someOf(names))},
	}}
}

// gatewayFilter advises to give gateways the clusters of their routes alone.
func (d *diagnosis) gatewayFilter() []Finding {
	gateways, sum := d.numProxies(true), 0
	for _, p := range d.Proxies {
		if p.Router {
			sum += p.Clusters
		}
	}
	before := share(float64(sum), float64(gateways))
	after := float64(d.Census.RoutedPorts)
	if !d.Settings.AllClusters || gateways == 0 || before-after < minUnusedClusters {
		return nil
	}
	return []Finding{{
		Summary: "gateways have the clusters of all services, and routes to few of them",
		Evidence: []Evidence{
			above("clusters of a gateway", before, after+minUnusedClusters, ""),
		},
		Effects: []Effect{
			{What: "clusters of a gateway", Before: before, After: after},
		},
		Remedy: Remedy{Variables: map[string]string{"PILOT_FILTER_GATEWAY_CLUSTER_CONFIG": "true"}},
	}}
}

// slowProxies points to where to look when the control plane is idle and changes are late.
func (d *diagnosis) slowProxies() []Finding {
	if d.bottleneck.Factor != Elsewhere {
		return nil
	}
	stale, effects := d.gauge(metricStale), []Effect{}
	if stale > 0 {
		effects = append(effects, Effect{What: "proxies that have long not acknowledged a change", Before: stale})
	}
	return []Finding{{
		Summary: "changes are late, and nothing of the control plane is full",
		Evidence: []Evidence{
			above(metricConvergence+" p99", d.histogram(metricConvergence).quantile(0.99), slowSeconds, "s"),
			{Metric: "CPU of the fullest replica", Value: d.fullest((*Replica).cpuShare), Threshold: fullShare,
				Unit: "of its CPUs"},
			above(metricStale, stale, 0, ""),
		},
		Effects: effects,
		Remedy: Remedy{Text: "proxies are slow to answer (lateen status names them), or the network or the nodes are " +
			"overloaded"},
	}}
}

func (d *diagnosis) refused() []Finding {
	return d.erring(metricRejects, "proxies refuse configuration and go on with what they had",
		"lateen status names the proxies and what they say; lateen analyze finds what is wrong in objects")
}

func (d *diagnosis) writeTimeouts() []Finding {
	return d.erring(metricWriteTimeouts, "proxies do not read what they are sent",
		"the network or the nodes of proxies are overloaded, or their CPU limits are too low")
}

func (d *diagnosis) internalErrors() []Finding {
	return d.erring(metricInternal, "the control plane itself fails", "its log says what; please report it")
}

// erring is a finding if a counter of errors grew.
func (d *diagnosis) erring(metric, summary, remedy string) []Finding {
	n := d.increase(metric)
	if n <= 0 {
		return nil
	}
	return []Finding{{
		Summary: summary, Evidence: []Evidence{above(metric, n, 0, "in the window")},
		Effects: []Effect{{What: metric, Unit: "in the window", Before: n}},
		Remedy:  Remedy{Text: remedy},
	}}
}
