package dataplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// Run starts the mesh, measures all cases and ends the mesh. If it fails, or the context ends, the
// report has what was measured until then.
func Run(ctx context.Context, o Options) (r Report, err error) {
	if err := o.Validate(); err != nil {
		return r, err
	}
	r = newReport(o)
	m, err := startMesh(ctx, o)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, m.stop()) }()
	paths, err := m.paths(ctx)
	if err != nil {
		return r, err
	}
	r.Notes = append(r.Notes, m.problems()...)
	done, all := 0, len(o.QPS)*len(o.Connections)*o.Rounds*len(paths)
	for _, qps := range o.QPS {
		for _, connections := range o.Connections {
			c := Case{QPS: qps, Connections: connections}
			for round := range o.Rounds {
				for i := range paths {
					p := paths[(i+round)%len(paths)] // each path comes first in turn
					o.progress(fmt.Sprintf("%s, %d connections", p.name, connections), done, all)
					sample, err := m.measure(ctx, p, c)
					if err != nil {
						return r, fmt.Errorf("path %s: %w", p.name, err)
					}
					done++
					c.add(sample)
				}
			}
			c.summarize(paths)
			r.Cases = append(r.Cases, c)
		}
	}
	return r, nil
}

func (o Options) progress(what string, done, all int) {
	if o.Progress != nil {
		o.Progress(what, done, all)
	}
}

func newReport(o Options) Report {
	r := Report{
		Setup: newSetup(Kind, o), Telemetry: o.Telemetry, AccessLogs: o.AccessLogs, JSONLogs: o.JSONLogs,
		Policies: o.Policies,
	}
	if o.Tracing {
		r.Tracing = &o.Sampling
	}
	return r
}

// path is a way to the server.
type path struct {
	name   string
	target traffic.Target
	// proxies are the Envoys on it, by the names of reports.
	proxies []proxy
}

// proxy is a process of a pod.
type proxy struct{ name, workload, process string }

// envoyProcess is the process of a pod that is its Envoy.
const envoyProcess = "istio-proxy"

// throughSidecars is the path between two workloads by both their sidecars.
func (m *mesh) throughSidecars(name, client, server string) path {
	port := m.o.Protocol.Port()
	outbound := local.HTTPProxyPort
	if m.o.Protocol == traffic.TCP {
		outbound = port
	}
	return path{
		name: name,
		target: traffic.Target{
			Protocol: m.o.Protocol, Address: at(m.pod(client).Outbound, outbound),
			Authority: server + ":" + strconv.Itoa(port), Payload: m.o.Payload,
		},
		proxies: []proxy{{"client", client, envoyProcess}, {"server", server, envoyProcess}},
	}
}

// paths returns the paths that are measured.
func (m *mesh) paths(ctx context.Context) ([]path, error) {
	port := m.o.Protocol.Port()
	target := func(address, authority string) traffic.Target {
		return traffic.Target{Protocol: m.o.Protocol, Address: address, Authority: authority, Payload: m.o.Payload}
	}
	server, gateway := m.pod("server"), m.pod("gateway")
	paths := []path{{name: Baseline, target: target(at(server.App, port), "")}}
	if slices.Contains(m.o.Paths, Sidecar) {
		paths = append(paths, m.throughSidecars(Sidecar, "client", "server"))
	}
	if slices.Contains(m.o.Paths, SidecarBack) {
		paths = append(paths, m.throughSidecars(SidecarBack, "server", "client"))
	}
	if slices.Contains(m.o.Paths, IngressClient) {
		paths = append(paths, path{
			name:    IngressClient,
			target:  target(at(gateway.Pod, gatewayPort), clientHost),
			proxies: []proxy{{"gateway", "gateway", envoyProcess}, {"client", "client", envoyProcess}},
		})
	}
	if slices.Contains(m.o.Paths, Ingress) {
		entry := gatewayPort
		if m.o.Protocol == traffic.TCP {
			entry = gatewayTCPPort
		}
		paths = append(paths, path{
			name:    Ingress,
			target:  target(at(gateway.Pod, entry), string(m.o.Protocol)+"."+gatewayHost),
			proxies: []proxy{{"gateway", "gateway", envoyProcess}, {"server", "server", envoyProcess}},
		})
	}
	if slices.Contains(m.o.Paths, Handwritten) {
		address, err := m.handwritten(ctx)
		if err != nil {
			return nil, fmt.Errorf("the hand-written Envoys: %w", err)
		}
		paths = append(paths, path{
			name:    Handwritten,
			target:  target(address, "server:"+strconv.Itoa(port)),
			proxies: []proxy{{"client", minimalClient, "app"}, {"server", minimalServer, "app"}},
		})
	}
	return paths, nil
}

func at(a netip.Addr, port int) string { return net.JoinHostPort(a.String(), strconv.Itoa(port)) }

// Sample is what one path did in one round.
type Sample struct {
	Path string `json:"path"`
	// Sent requests were Answered or have Failed. Unsent ones were due and found their connection
	// busy for too long.
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
	Failed   int `json:"failed,omitempty"`
	Unsent   int `json:"unsent,omitempty"`
	// QPS is how many were answered a second.
	QPS     float64 `json:"qps"`
	Latency Latency `json:"latency"`
	Late    Seconds `json:"clientLateP99"`
	Proxies []Proxy `json:"proxies,omitempty"`
	result  traffic.Result
}

// Proxy is what a proxy took for the requests of a sample.
type Proxy struct {
	Name string `json:"name"`
	// CPU is user and system time.
	CPU Seconds `json:"cpuSeconds"`
	// Resident is its memory at the end, in bytes.
	Resident int64 `json:"residentBytes"`
	// Requests is how many requests passed it.
	Requests int `json:"requests"`
}

// Cores returns how many CPUs the proxy takes for 1,000 requests a second.
func (p Proxy) Cores() float64 {
	if p.Requests == 0 {
		return 0
	}
	return 1000 * p.CPU.Float() / float64(p.Requests)
}

// Seconds is a time in reports.
type Seconds = measure.Seconds

// measure sends the requests of a case over a path.
func (m *mesh) measure(ctx context.Context, p path, c Case) (Sample, error) {
	pids := make([]measure.PID, len(p.proxies))
	before := make([]measure.Usage, len(p.proxies))
	read := func(into []measure.Usage) (err error) {
		for i, pid := range pids {
			u, failed := pid.Usage(ctx)
			into[i], err = u, errors.Join(err, failed)
		}
		return err
	}
	for i, x := range p.proxies {
		pid, err := m.process(x.workload, x.process)
		if err != nil {
			return Sample{}, err
		}
		pids[i] = pid
	}
	result, err := traffic.Run(ctx, traffic.Load{
		Target: p.target, QPS: c.QPS, Connections: c.Connections, Duration: m.o.Duration,
		Label: fmt.Sprintf("lateen %s %s %s c%d", m.o.Version, p.name, m.o.Protocol, c.Connections),
	}, func() error { return read(before) })
	if err != nil {
		return Sample{}, err
	}
	after := make([]measure.Usage, len(p.proxies))
	if err := read(after); err != nil {
		return Sample{}, err
	}
	s := Sample{
		Path: p.name, Sent: result.Sent, Answered: result.Answered, Failed: result.Failed, Unsent: result.Unsent,
		QPS: result.QPS(), Latency: latencyOf(result.Latency), Late: Seconds(result.Late.Quantile(0.99)),
		result: result,
	}
	for i, x := range p.proxies {
		used := after[i].Since(before[i])
		s.Proxies = append(s.Proxies, Proxy{
			Name: x.name, CPU: Seconds(used.CPU), Resident: used.Resident, Requests: result.Sent,
		})
	}
	return s, nil
}
