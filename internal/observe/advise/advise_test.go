package advise

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/census"
)

// healthy is a mesh of 12 namespaces with 10 services and 5 proxies each, all Sidecars set, and two
// replicas that have little to do.
func healthy() *Facts {
	f := &Facts{
		Census: census.Census{RootNamespace: "istio-system", Namespaces: []census.Namespace{}},
		Events: map[string]float64{}, Settings: Settings{
			Known: true, DebounceAfter: 0.1, DebounceEarly: 0.02, DebounceMax: 10, Selects: true,
		},
		Calls: Calls{Source: "a test", ByNamespace: map[string]map[model.Host]float64{}}, InCluster: true,
		Autoscaler: &Autoscaler{Min: 2, Max: 5, Current: 2},
	}
	for i := range 12 {
		name := fmt.Sprintf("ns-%02d", i)
		f.Census.Namespaces = append(f.Census.Namespaces, census.Namespace{
			Name: name, Workloads: 5, Services: 10, SeenServices: 10, SeenPorts: 10, Sidecar: "default",
		})
		for s := range 10 {
			f.Census.Services = append(f.Census.Services, service(name, fmt.Sprintf("svc-%d", s)))
		}
		for range 5 {
			f.Proxies = append(f.Proxies, Proxy{Namespace: name, Clusters: 14, ConfigBytes: 20_000})
		}
		f.Calls.ByNamespace[name] = map[model.Host]float64{hostOf(name, "svc-0"): 100}
		f.Events[name] = 10
	}
	sortServices(f)
	for i := range 2 {
		f.Replicas = append(f.Replicas, Replica{
			Name: fmt.Sprint("istiod-", i), Seconds: 60,
			Counters: map[string]float64{metricCPU: 12, metricPushes: 120, metricUpdates: 60, metricPushBusy: 6},
			Gauges: map[string]float64{metricCPUs: 2, metricMemory: 100 << 20, metricMemoryLimit: 1 << 30,
				metricSlots: 25, metricProxies: 30, metricServices: 120},
			Histograms: map[string]Histogram{
				metricConvergence: {Count: 100, Sum: 5, Buckets: []Bucket{{0.1, 99}, {1, 100}, {3, 100}}},
				metricQueueTime:   {Count: 100, Sum: 1, Buckets: []Bucket{{0.1, 100}}},
				metricDebounce:    {Count: 60, Sum: 6}, metricInit: {Sum: 1}, metricCompile: {Sum: 1},
			},
		})
	}
	return f
}

func hostOf(namespace, name string) model.Host {
	return model.Host(name + "." + namespace + ".svc.cluster.local")
}

func service(namespace, name string) census.Service {
	return census.Service{
		Host: hostOf(namespace, name), Kind: kinds.Service, Namespace: namespace, Name: name, Ports: 1,
		ExportTo: model.Exports{All: true},
	}
}

func sortServices(f *Facts) {
	slices.SortFunc(f.Census.Services, func(a, b census.Service) int {
		if a.Host < b.Host {
			return -1
		}
		return 1
	})
}

// unscoped takes the Sidecars away, so that everybody sees all 120 services.
func unscoped(f *Facts) {
	for i := range f.Census.Namespaces {
		n := &f.Census.Namespaces[i]
		n.Sidecar, n.SeenServices, n.SeenPorts = "", 120, 120
	}
	for i := range f.Proxies {
		f.Proxies[i].Clusters, f.Proxies[i].ConfigBytes = 124, 160_000
	}
}

// late has changes that arrive after more than a second.
func late(f *Facts) {
	for i := range f.Replicas {
		f.Replicas[i].Histograms[metricConvergence] = Histogram{
			Count: 100, Buckets: []Bucket{{1, 10}, {3, 100}, {5, 100}},
		}
	}
}

// full uses all CPUs, with so many seconds of each for events and for pushes.
func full(f *Facts, cpu, events, pushes float64) {
	late(f)
	for i := range f.Replicas {
		r := &f.Replicas[i]
		r.Counters[metricCPU] = 60 * 2 * cpu
		r.Counters[metricPushBusy] = 60 * pushes
		r.Histograms[metricInit] = Histogram{Sum: 60 * events}
	}
}

func onFirst(f *Facts, counter string, n float64) { f.Replicas[0].Counters[counter] = n }

// ruleCase is one bad state.
type ruleCase struct {
	name string
	make func(*Facts)
	want []string // rules
	bad  []Signal
	by   Factor
	// of is the effect of the first finding with this name.
	effect        string
	before, after float64
	remedy        func(*testing.T, Remedy)
}

func ruleCases() []ruleCase {
	return []ruleCase{
		{name: "a healthy mesh gets no advice", make: func(*Facts) {}, by: NoFactor},
		{
			name: "proxies see what they do not call", make: unscoped, want: []string{"sidecar"},
			bad: []Signal{Traffic}, by: NoFactor,
			effect: "clusters of a proxy", before: 124, after: 14,
			remedy: func(t *testing.T, r Remedy) {
				require.True(t, r.Automatic)
				require.Equal(t, "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata:\n  name: default\n"+
					"  namespace: istio-system\nspec:\n  egress:\n  - hosts:\n    - ./*\n    - istio-system/*\n",
					r.Manifests)
			},
		},
		{
			name: "a namespace calls another one through a route", make: func(f *Facts) {
				unscoped(f)
				f.Calls.ByNamespace["ns-00"][hostOf("ns-01", "svc-1")] = 1
				at := slices.IndexFunc(f.Census.Services, func(s census.Service) bool {
					return s.Host == hostOf("ns-01", "svc-1")
				})
				f.Census.Services[at].RoutedFrom = []model.ScopedHost{
					{Namespace: "ns-02", Host: hostOf("ns-02", "svc-2")},
				}
			}, want: []string{"sidecar"}, bad: []Signal{Traffic}, by: NoFactor,
			effect: "proxies that a change of a service reaches", before: 60,
			after: (12*5*10 + 2*5) / 120.0,
			remedy: func(t *testing.T, r Remedy) {
				require.Contains(t, r.Manifests, "namespace: ns-00\nspec:\n  egress:\n  - hosts:\n    - ./*\n"+
					"    - istio-system/*\n    - ns-01/svc-1.ns-01.svc.cluster.local\n"+
					"    - ns-02/svc-2.ns-02.svc.cluster.local\n---\n")
			},
		},
		{
			name: "calls are not known", make: func(f *Facts) {
				unscoped(f)
				f.Calls = Calls{}
			}, want: []string{"sidecar"}, bad: []Signal{Traffic}, by: NoFactor,
			remedy: func(t *testing.T, r Remedy) {
				require.False(t, r.Automatic)
				require.Contains(t, r.ByHand, "who calls whom is not known")
			},
		},
		{
			name: "a namespace without proxies causes events", make: func(f *Facts) {
				f.Census.Namespaces = append(f.Census.Namespaces, census.Namespace{Name: "openshift-x", Services: 1})
				f.Census.Services = append(f.Census.Services, service("openshift-x", "noise"))
				sortServices(f)
				f.Events["openshift-x"] = 880
			}, want: []string{"discovery-selectors"}, bad: []Signal{Traffic}, by: NoFactor,
			effect: "events", before: 1000.0 / 60, after: 120.0 / 60,
			remedy: func(t *testing.T, r Remedy) {
				require.Equal(t, []string{"openshift-x"}, r.ExcludeNamespaces)
				require.True(t, r.Automatic)
			},
		},
		{
			name: "a namespace without proxies that is called is of use", make: func(f *Facts) {
				f.Census.Namespaces = append(f.Census.Namespaces, census.Namespace{Name: "db", Services: 1})
				f.Census.Services = append(f.Census.Services, service("db", "sql"))
				sortServices(f)
				f.Events["db"] = 880
				f.Calls.ByNamespace["ns-00"][hostOf("db", "sql")] = 1
			}, by: NoFactor,
		},
		{
			name: "gateways have all clusters", make: func(f *Facts) {
				f.Settings.AllClusters, f.Census.RoutedPorts = true, 3
				f.Proxies = append(f.Proxies, Proxy{Namespace: "istio-system", Router: true, Clusters: 120})
			}, want: []string{"gateway-filter"}, bad: []Signal{Traffic}, by: NoFactor,
			effect: "clusters of a gateway", before: 120, after: 3,
			remedy: func(t *testing.T, r Remedy) {
				require.Equal(t, "true", r.Variables["PILOT_FILTER_GATEWAY_CLUSTER_CONFIG"])
			},
		},
		{
			name: "names are looked up by all", make: func(f *Facts) {
				for i := range f.Census.Namespaces {
					f.Census.Namespaces[i].Sidecar = "" // all see few services, and these
				}
				for i := range 60 {
					entry := service("ns-00", fmt.Sprintf("ext-%d", i))
					entry.Kind, entry.Lookups = kinds.ServiceEntry, 1
					f.Census.Services = append(f.Census.Services, entry)
					f.Calls.ByNamespace["ns-00"][entry.Host] = 1
				}
				sortServices(f)
			}, want: []string{"dns"}, bad: []Signal{Traffic}, by: NoFactor,
			effect: "DNS lookups", before: 60 * 60, after: 60 * 5,
		},
		{
			name: "many requests are logged and traced", make: func(f *Facts) {
				f.Requests, f.Failed, f.Census.AccessLogs, f.Census.Sampling = 5000, 50, true, 100
			}, want: []string{"telemetry", "telemetry"}, bad: []Signal{Traffic}, by: NoFactor,
			effect: "CPU of all proxies for access logs", before: 5 * 0.02, after: 5 * 0.02 / 100,
			remedy: func(t *testing.T, r Remedy) {
				require.True(t, r.Automatic)
				require.Contains(t, r.Manifests, "response.code >= 400")
				require.NotContains(t, r.Manifests, "providers")
			},
		},
		{
			name: "the mesh has a Telemetry, and logs to accessLogFile", make: func(f *Facts) {
				f.Requests, f.Census.Reports = 5000, census.Reports{AccessLogs: true, LegacyLogs: true, Telemetry: "x"}
			}, want: []string{"telemetry"}, bad: []Signal{Traffic}, by: NoFactor,
			effect: "logged requests", before: 5000, after: 0,
			remedy: func(t *testing.T, r Remedy) {
				require.False(t, r.Automatic)
				require.Contains(t, r.ByHand, "Telemetry istio-system/x")
				require.Contains(t, r.Manifests, "    providers:\n    - name: envoy\n")
			},
		},
		{
			name: "events fill the CPUs", make: func(f *Facts) {
				full(f, 0.97, 1.5, 0.2)
				for i := range f.Replicas {
					f.Replicas[i].Counters[metricUpdates] = 60 * 20
					f.Replicas[i].Histograms[metricDebounce] = Histogram{Count: 60 * 5}
				}
			}, want: []string{"debounce", "scale-up"}, bad: []Signal{Latency, Saturation}, by: RateOfChanges,
			effect: "batches of changes, if these come independently of each other", before: 5,
			after: 5 * 0.6703200460356393, // e^(-20/s * 20 ms)
			remedy: func(t *testing.T, r Remedy) {
				require.Equal(t, map[string]string{"PILOT_DEBOUNCE_AFTER": "120ms", "LATEEN_DEBOUNCE_EARLY": "20ms"},
					r.Variables)
			},
		},
		{
			name: "pushes fill the CPUs", make: func(f *Facts) { full(f, 1, 0.1, 1.8) },
			want: []string{"scale-out"}, bad: []Signal{Latency, Saturation}, by: NumProxies,
			effect: "proxies of a replica", before: 30, after: 15,
			remedy: func(t *testing.T, r Remedy) { require.Equal(t, "4", r.Values["pilot.autoscaleMin"]) },
		},
		{
			name: "large configuration fills the CPUs", make: func(f *Facts) {
				full(f, 1, 0.1, 1.8)
				for i := range f.Proxies {
					f.Proxies[i].ConfigBytes = 2 << 20
				}
			}, want: []string{"scale-out"}, bad: []Signal{Latency, Saturation}, by: ConfigSize,
		},
		{
			name: "pushes wait while CPUs are idle", make: func(f *Facts) {
				late(f)
				for i := range f.Replicas {
					f.Replicas[i].Counters[metricPushBusy] = 60 * 24
				}
			}, want: []string{"throttle"}, bad: []Signal{Latency, Saturation}, by: PushSlots,
			effect: "pushes at a time", before: 25, after: 50,
			remedy: func(t *testing.T, r Remedy) {
				require.Equal(t, map[string]string{"PILOT_PUSH_THROTTLE": "50"}, r.Variables)
			},
		},
		{
			name: "a new replica is idle", make: func(f *Facts) {
				f.Replicas[0].Gauges[metricProxies], f.Replicas[1].Gauges[metricProxies] = 60, 0
			}, want: []string{"balance"}, bad: []Signal{Saturation}, by: NoFactor,
			effect: "proxies of the fullest replica", before: 60, after: 30,
		},
		{
			name: "memory is full", make: func(f *Facts) { f.Replicas[0].Gauges[metricMemory] = 1 << 30 },
			want: []string{"memory"}, bad: []Signal{Saturation}, by: Resources,
			effect: "memory limit", before: 1 << 30, after: 2 << 30,
			remedy: func(t *testing.T, r Remedy) {
				require.Equal(t, "2048Mi", r.Values["pilot.resources.limits.memory"])
			},
		},
		{
			name: "the autoscaler is at its bound", make: func(f *Facts) {
				full(f, 1, 0.1, 1.8)
				f.Autoscaler = &Autoscaler{Min: 1, Max: 2, Current: 2}
			}, want: []string{"scale-out", "autoscaler", "autoscaler"}, bad: []Signal{Latency, Saturation},
			by: NumProxies,
		},
		{
			name: "the autoscaler is at its bound, and more replicas would not help", make: func(f *Facts) {
				full(f, 0.92, 1.5, 0.2)
				f.Autoscaler = &Autoscaler{Min: 2, Max: 2, Current: 2}
			}, want: []string{"debounce", "scale-up"}, bad: []Signal{Latency, Saturation}, by: RateOfChanges,
		},
		{
			name: "one replica in a cluster", make: func(f *Facts) {
				f.Autoscaler, f.Replicas = nil, f.Replicas[:1]
			}, want: []string{"autoscaler"}, bad: []Signal{Saturation}, by: NoFactor,
			effect: "replicas at least", before: 1, after: 2,
		},
		{
			name: "a namespace is noisy", make: func(f *Facts) { f.Costs = noisyCosts() },
			want: []string{"noisy-namespace"}, bad: []Signal{Traffic}, by: NoFactor,
			effect: "CPU of changes without those of EndpointSlice ns-03/flapping-x2x4q", before: 0.1, after: 0.02,
		},
		{
			name: "changes are late and nothing is full", make: late, want: []string{"slow-proxies"},
			bad: []Signal{Latency}, by: Elsewhere,
		},
		{
			name: "configuration is refused", make: func(f *Facts) { onFirst(f, metricRejects, 2) },
			want: []string{"config-refused"}, bad: []Signal{Errors}, by: NoFactor,
		},
		{
			name: "proxies do not read", make: func(f *Facts) { onFirst(f, metricWriteTimeouts, 1) },
			want: []string{"write-timeouts"}, bad: []Signal{Errors}, by: NoFactor,
		},
		{
			name: "the control plane fails", make: func(f *Facts) { onFirst(f, metricInternal, 1) },
			want: []string{"internal-errors"}, bad: []Signal{Errors}, by: NoFactor,
		},
	}
}

func testModel(t *testing.T) Model {
	m, err := StoredModel()
	require.NoError(t, err)
	m.DataPlane.Cases = nil
	on := m.DataPlane.Case(true, false)
	on.Telemetry, on.Client.Cores, on.Server.Cores = true, 0.15, 0.15
	logged := on
	logged.AccessLogs, logged.Client.Cores = true, 0.17
	m.DataPlane.Cases = append(m.DataPlane.Cases, on, logged)
	return m
}

func TestRules(t *testing.T) {
	for _, c := range ruleCases() {
		t.Run(c.name, func(t *testing.T) {
			f := healthy()
			c.make(f)
			r := Advise(f, testModel(t))
			var found []string
			for _, x := range r.Findings {
				found = append(found, x.Rule)
				require.NotEmpty(t, x.Summary)
				require.NotEmpty(t, x.Evidence)
				require.True(t, slices.ContainsFunc(x.Evidence, func(e Evidence) bool { return e.Off }), x.Rule)
			}
			require.Equal(t, c.want, found)
			require.Equal(t, c.by, r.Bottleneck.Factor, r.Bottleneck.Why)
			for _, s := range r.Signals {
				require.Equal(t, slices.Contains(c.bad, s.Signal), s.State == Off, "%v", s)
			}
			if c.effect != "" {
				at := slices.IndexFunc(r.Findings[0].Effects, func(e Effect) bool { return e.What == c.effect })
				require.GreaterOrEqual(t, at, 0, "%v", r.Findings[0].Effects)
				require.InDelta(t, c.before, r.Findings[0].Effects[at].Before, 1e-9)
				require.InDelta(t, c.after, r.Findings[0].Effects[at].After, 1e-9)
			}
			if c.remedy != nil {
				c.remedy(t, r.Findings[0].Remedy)
			}
		})
	}
}

// TestEachRuleHasACase here, and a line in the guide.
func TestEachRuleHasACase(t *testing.T) {
	guide, err := os.ReadFile("../../../docs/guides/tune.md")
	require.NoError(t, err)
	var tried []string
	for _, c := range ruleCases() {
		tried = append(tried, c.want...)
	}
	for _, r := range rules() {
		require.Contains(t, tried, r.id)
		require.Contains(t, string(guide), "`"+r.id+"`")
	}
}

// TestBoundsAreAdvisedOnce: what scale-out and autoscaler say of one value of the chart is equal.
func TestBoundsAreAdvisedOnce(t *testing.T) {
	f := healthy()
	full(f, 1, 0.1, 1.8)
	f.Autoscaler = &Autoscaler{Min: 1, Max: 11, Current: 11}
	values := map[string]string{}
	for _, found := range Advise(f, testModel(t)).Findings {
		for name, value := range found.Remedy.Values {
			if before, said := values[name]; said {
				require.Equal(t, before, value, name)
			}
			values[name] = value
		}
	}
	require.Equal(t, map[string]string{"pilot.autoscaleMin": "4", "pilot.autoscaleMax": "12"}, values)
}

// TestNamespacesWithWorkloadsStayIfProxiesAreNotKnown, since any of them may have one.
func TestNamespacesWithWorkloadsStayIfProxiesAreNotKnown(t *testing.T) {
	f := healthy()
	f.Census.Namespaces = append(f.Census.Namespaces, census.Namespace{Name: "batch", Services: 60, Workloads: 1})
	for i := range 60 {
		f.Census.Services = append(f.Census.Services, service("batch", fmt.Sprint("job-", i)))
	}
	sortServices(f)
	r := Advise(f, testModel(t))
	require.Len(t, r.Findings, 1)
	require.Equal(t, []string{"batch"}, r.Findings[0].Remedy.ExcludeNamespaces)
	f.Proxies = nil
	require.NotContains(t, rulesOf(Advise(f, testModel(t))), "discovery-selectors")
}

func rulesOf(r Report) (ids []string) {
	for _, f := range r.Findings {
		ids = append(ids, f.Rule)
	}
	return ids
}

// TestLargeNamespacesListWhatTheyCall: a namespace of 200 services that calls one of its own gets
// that one alone.
func TestLargeNamespacesListWhatTheyCall(t *testing.T) {
	f := &Facts{Census: census.Census{RootNamespace: "istio-system", Namespaces: []census.Namespace{
		{Name: "large", Workloads: 3, Services: 200, SeenServices: 200, SeenPorts: 200},
	}}, Calls: Calls{Source: "a test", ByNamespace: map[string]map[model.Host]float64{
		"large": {hostOf("large", "svc-7"): 1, "unknown.example.com": 1},
	}}}
	for i := range 200 {
		f.Census.Services = append(f.Census.Services, service("large", fmt.Sprintf("svc-%d", i)))
	}
	sortServices(f)
	r := Advise(f, testModel(t))
	require.Len(t, r.Findings, 1)
	require.Contains(t, r.Findings[0].Remedy.Manifests, "- ./svc-7.large.svc.cluster.local\n    - istio-system/*\n")
	require.NotContains(t, r.Findings[0].Remedy.Manifests, "./*")
	require.Equal(t, Unknown, r.Signals[0].State)
	require.InDelta(t, 1, r.Findings[0].Effects[0].After, 1e-9)
}

func TestQuantilesAreThoseOfPrometheus(t *testing.T) {
	h := Histogram{Count: 10, Buckets: []Bucket{{1, 10}, {0.5, 5}}}
	require.InDelta(t, 0.5, h.quantile(0.5), 1e-9)
	require.InDelta(t, 0.9, h.quantile(0.9), 1e-9)
	require.InDelta(t, 1, Histogram{Count: 10, Buckets: []Bucket{{1, 2}}}.quantile(0.9), 1e-9, "the last bound")
	require.Zero(t, Histogram{}.quantile(0.99))
}
