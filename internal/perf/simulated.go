package perf

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/apart"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
)

// Simulated says how the fleet of package sidecar behaves.
type Simulated struct {
	StateOfTheWorld bool
	// NameTable lets them ask for the table of an agent's DNS proxy, Secrets for these secrets.
	NameTable bool
	Secrets   []string
	// Apart is the command of a process for sidecars that misbehave, which runs apart.Serve.
	Apart []string
	// Loops is how many goroutines drive them; 0 for as many as suit the machine.
	Loops int
	Log   *slog.Logger
}

// loopbacks is how many source addresses are taken towards a target on loopback: each has 28,000 ports by default, of which those of
// broken connections are not free for a minute.
const loopbacks = 8

// Fleet starts one without sidecars. The address may have a name in place of an IP address.
func (s Simulated) Fleet(address string, h Hooks) (Fleet, error) {
	at, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; want host:port", address, err)
	}
	address = at.String()
	o := sidecar.Options{
		Targets: []string{address}, Sources: sourcesFor(address), Loops: s.Loops, Log: s.Log,
		Classify: func(r sidecar.Resource) sidecar.Mark { return sidecar.Mark(h.Classify(r.TypeURL, r.Name, r.Body)) },
		Arrived:  func(a sidecar.Arrival) { h.Arrived(a.Sidecar.Identity().Pod, uint64(a.Mark), a.Removed, a.At) },
		Synced:   func(s *sidecar.Sidecar, at time.Time) { h.Synced(s.Identity().Pod, at) },
	}
	if o.NameTable, o.Secrets = s.NameTable, s.Secrets; o.NameTable {
		o.Mesh.Metadata = map[string]any{"DNS_CAPTURE": "true"}
	}
	if s.StateOfTheWorld {
		o.Protocol = sidecar.StateOfTheWorld
	}
	well, err := sidecar.New(o)
	if err != nil {
		return nil, err
	}
	return simulated{well, o, s.Apart}, nil
}

// sourcesFor are addresses of 127.0.0.0/8 to connect from if the target is there too.
func sourcesFor(target string) (sources []netip.Addr) {
	at, err := netip.ParseAddrPort(target)
	if err != nil || !at.Addr().Is4() || !at.Addr().IsLoopback() {
		return nil
	}
	for i := range byte(loopbacks) {
		sources = append(sources, netip.AddrFrom4([4]byte{127, 0, 1, 1 + i}))
	}
	return sources
}

// simulated is a fleet in this process, and others in processes of their own, so that what those do that misbehave does not delay it.
type simulated struct {
	well    *sidecar.Fleet
	options sidecar.Options
	apart   []string
}

// Start implements Fleet.
func (s simulated) Start(pod load.Pod) (stop func()) {
	return s.well.Start(identity(pod), sidecar.Manners{}).Stop
}

// How bad those are that misbehave: lateBy is more than a change takes, floodRate more than a server has to bear.
const (
	lateBy    = 5 * time.Second
	floodRate = 5000
)

// StartSick implements Fleet.
func (s simulated) StartSick(pods []load.Pod, as Sickness) (Patients, error) {
	var m sidecar.Manners
	switch as {
	case Deaf:
		m.Deaf = true
	case Late:
		m.AckAfter = lateBy
	case Flooding:
		m.Flood = floodRate
	}
	who := make([]sidecar.Identity, len(pods))
	for i, pod := range pods {
		who[i] = identity(pod)
	}
	return apart.Start(s.apart, s.options, m, who)
}

// identity is what the sidecar of a pod says of itself.
func identity(pod load.Pod) sidecar.Identity {
	address, _ := netip.ParseAddr(pod.Address) // load writes them
	return sidecar.Identity{
		Namespace: pod.Namespace, Pod: pod.Name, Address: address, ServiceAccount: pod.ServiceAccount, NodeName: pod.Node, Labels: pod.Labels,
		Router: pod.Router,
	}
}

// Totals implements Fleet. It is of those that are well.
func (s simulated) Totals() Totals {
	stats := s.well.Stats()
	of := stats.Total()
	return Totals{
		Received: int64(stats.BytesRead), Sent: int64(stats.BytesWritten), Responses: int64(of.Responses), Refused: int64(of.Nacks),
		Turned: int64(stats.Failures + stats.Refused), Broken: int64(stats.Malformed),
	}
}

// Close implements Fleet.
func (s simulated) Close() { s.well.Close() }
