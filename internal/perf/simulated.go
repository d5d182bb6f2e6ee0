package perf

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/apart"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
)

// Simulated configures the fleet of package sidecar.
type Simulated struct {
	StateOfTheWorld bool
	// NameTable makes sidecars ask for the table of the agent's DNS proxy, and Secrets names the
	// secrets they ask for.
	NameTable bool
	Secrets   []string
	// MisbehavingCommand is the command of a process for misbehaving sidecars. It runs apart.Serve.
	MisbehavingCommand []string
	// TLS encrypts the connections of well-behaved sidecars, and Token returns the token with which
	// each connects. Both may be nil.
	TLS   *tls.Config
	Token func(namespace, serviceAccount, pod string) string
	// Loops is how many goroutines drive the sidecars. 0 suits the machine.
	Loops int
	Log   *slog.Logger
}

// loopbacks is how many source addresses connect to a target on loopback. Each has 28,000 ports by
// default, and the port of a closed connection is blocked for a minute.
const loopbacks = 8

// Fleet starts a fleet without sidecars. The address may contain a host name.
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
	if h.Collected != nil {
		o.Collected = func(assignment string, members []sidecar.Mark) sidecar.Mark {
			marks := make([]uint64, len(members))
			for i, m := range members {
				marks[i] = uint64(m)
			}
			return sidecar.Mark(h.Collected(assignment, marks))
		}
	}
	if o.NameTable, o.Secrets = s.NameTable, s.Secrets; o.NameTable {
		o.Mesh.Metadata = map[string]any{"DNS_CAPTURE": "true"}
	}
	if o.TLS = s.TLS; s.Token != nil {
		o.Token = func(id sidecar.Identity) (string, error) {
			return s.Token(id.Namespace, cmp.Or(id.ServiceAccount, "default"), id.Pod), nil
		}
	}
	if s.StateOfTheWorld {
		o.Protocol = sidecar.StateOfTheWorld
	}
	well, err := sidecar.New(o)
	if err != nil {
		return nil, err
	}
	return simulatedFleet{well, o, s.MisbehavingCommand}, nil
}

// sourcesFor returns source addresses in 127.0.0.0/8 if the target is there too.
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

// simulatedFleet runs well-behaved sidecars in this process and misbehaving ones in other
// processes, so that they do not delay the measured ones.
type simulatedFleet struct {
	well    *sidecar.Fleet
	options sidecar.Options
	apart   []string
}

// Start implements Fleet.
func (s simulatedFleet) Start(pod load.Pod) (stop func()) {
	return s.well.Start(identity(pod), sidecar.Faults{}).Stop
}

// lateBy is longer than a change takes. floodRate is more requests a second than a server should
// serve.
const (
	lateBy    = 5 * time.Second
	floodRate = 5000
)

// StartMisbehaving implements Fleet.
func (s simulatedFleet) StartMisbehaving(pods []load.Pod, as Disturbance) (Misbehaving, error) {
	var m sidecar.Faults
	switch as {
	case StalledReaders:
		m.StopsReading = true
	case LateACKs:
		m.AckDelay = lateBy
	case RequestFlood:
		m.FloodRate = floodRate
	}
	who := make([]sidecar.Identity, len(pods))
	for i, pod := range pods {
		who[i] = identity(pod)
	}
	return apart.Start(s.apart, s.options, m, who)
}

// identity returns what the sidecar of a pod says of itself.
func identity(pod load.Pod) sidecar.Identity {
	address, _ := netip.ParseAddr(pod.Address) // load writes them
	return sidecar.Identity{
		Namespace:      pod.Namespace,
		Pod:            pod.Name,
		Address:        address,
		ServiceAccount: pod.ServiceAccount,
		NodeName:       pod.Node,
		Labels:         pod.Labels,
		Router:         pod.Router,
	}
}

// Totals implements Fleet, for well-behaved sidecars.
func (s simulatedFleet) Totals() Totals {
	stats := s.well.Stats()
	of := stats.Total()
	return Totals{
		Received: int64(
			stats.BytesRead,
		), Sent: int64(stats.BytesWritten), Responses: int64(of.Responses), Refused: int64(of.Nacks),
		RefusedStreams: int64(stats.Failures + stats.Refused), BrokenConnections: int64(stats.Malformed),
	}
}

// Close implements Fleet.
func (s simulatedFleet) Close() { s.well.Close() }
