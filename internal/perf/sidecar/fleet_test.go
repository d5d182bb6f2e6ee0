package sidecar_test

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// inEachProtocol runs a test twice.
func inEachProtocol(t *testing.T, test func(*testing.T, sidecar.Options)) {
	for _, protocol := range []sidecar.Protocol{sidecar.Delta, sidecar.StateOfTheWorld} {
		t.Run(protocol.String(), func(t *testing.T) {
			test(t, sidecar.Options{Protocol: protocol, Loops: 2, Log: logTo(t)})
		})
	}
}

func start(f *sidecar.Fleet, n int, m sidecar.Faults) (all []*sidecar.Sidecar) {
	for _, id := range identities(n) {
		all = append(all, f.Start(id, m))
	}
	return all
}

func TestAFleetComesInSync(t *testing.T) {
	p := startPlane(t, 100, "")
	inEachProtocol(t, func(t *testing.T, o sidecar.Options) {
		o.Targets = []string{p.address}
		f := newFleet(t, o)
		n := 500
		if raced {
			n = 80
		}
		all := start(f, n, sidecar.Faults{})
		await(t, f, "a fleet in sync", allSynced)
		s := f.Stats()
		require.Equal(t, n, s.Connected)
		require.Zero(t, s.Total().Nacks)
		require.Zero(t, s.Late)
		for _, s := range all {
			if s.Identity().Router {
				continue
			}
			require.NotZero(t, s.Holds(sidecar.Endpoint))
			require.NotZero(t, s.Holds(sidecar.Route))
		}
		if o.Protocol == sidecar.Delta {
			require.NotZero(t, s.Types[sidecar.VirtualHost].Resources)
		}
		for _, s := range all[n/2:] {
			s.Stop()
			s.Stop()
		}
		await(t, f, "half a fleet",
			func(s sidecar.Stats) bool { return s.Started == n/2 && s.Synced == n/2 && s.Connected == n/2 })
	})
}

// removed is added to the marks of what was removed.
const removed = 1000

// marks collects what arrived.
type marks struct {
	mu  sync.Mutex
	all map[*sidecar.Sidecar]map[sidecar.Mark]time.Time
}

func (m *marks) arrived(a sidecar.Arrival) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[a.Sidecar] == nil {
		m.all[a.Sidecar] = map[sidecar.Mark]time.Time{}
	}
	mark := a.Mark
	if a.Removed {
		mark += removed
	}
	m.all[a.Sidecar][mark] = a.At
}

func (m *marks) count(mark sidecar.Mark) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.all {
		if !of[mark].IsZero() {
			n++
		}
	}
	return n
}

// first is when the earliest of them arrived.
func (m *marks) first() (earliest time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.all {
		for _, at := range of {
			if earliest.IsZero() || at.Before(earliest) {
				earliest = at
			}
		}
	}
	return earliest
}

func TestAChangeIsSeenByAllThatItReaches(t *testing.T) {
	p := startPlane(t, 100, "")
	inEachProtocol(t, func(t *testing.T, o sidecar.Options) {
		o.Targets = []string{p.address}
		seen := marks{all: map[*sidecar.Sidecar]map[sidecar.Mark]time.Time{}}
		o.Arrived = seen.arrived
		o.Classify = func(r sidecar.Resource) sidecar.Mark {
			switch {
			case bytes.Contains(r.Body, []byte("marked-route")):
				return 1
			case bytes.Contains(r.Body, []byte("outbound|3399|")) && r.TypeURL == sidecar.Cluster.URL():
				return 2
			}
			return 0
		}
		f := newFleet(t, o)
		start(f, 80, sidecar.Faults{})
		await(t, f, "a fleet in sync", allSynced)
		require.Zero(t, seen.count(1)+seen.count(2))

		before := time.Now()
		virtual := meshgen.VirtualService(meshgen.Number(7, meshgen.Plain))
		p.send(meshgen.Upsert(edited(virtual,
			func(v *networkingv1.VirtualService) { v.Spec.Http[0].Name = "marked-route" })))
		service := meshgen.Service(meshgen.Number(7, meshgen.Plain))
		service.Spec.Ports[0].Port = 3399
		p.send(meshgen.Upsert(service))
		await(t, f, "a changed table", func(sidecar.Stats) bool { return seen.count(1) > 40 && seen.count(2) > 40 })
		require.False(t, seen.first().Before(before))
		p.send(meshgen.Upsert(meshgen.Service(meshgen.Number(7, meshgen.Plain))))
		p.send(meshgen.Upsert(meshgen.VirtualService(meshgen.Number(7, meshgen.Plain))))
		await(t, f, "the cluster's removal", func(sidecar.Stats) bool { return seen.count(removed+2) == seen.count(2) })
	})
}

func edited[T any](o *T, edit func(*T)) *T {
	edit(o)
	return o
}

func TestWhoReturnsSaysWhatItHas(t *testing.T) {
	p := startPlane(t, 100, held(t))
	f := newFleet(t, sidecar.Options{Targets: []string{p.address}, Log: logTo(t)})
	all := start(f, 40, sidecar.Faults{})
	await(t, f, "a fleet in sync", allSynced)
	held := all[0].Resources(sidecar.Endpoint)
	before := f.Stats().Total()
	for _, s := range all {
		s.Reconnect()
	}
	await(t, f, "a fleet in sync again", func(s sidecar.Stats) bool { return s.Reconnects == 40 && allSynced(s) })
	after := f.Stats().Total()
	require.Equal(t, before.Resources, after.Resources, "nothing has changed, so nothing is sent")
	require.Greater(t, after.Reported, uint64(1000))
	require.Equal(t, held, all[0].Resources(sidecar.Endpoint))

	p.stop() // and an equal one in its place
	await(t, f, "the loss of all", func(s sidecar.Stats) bool { return s.Connected == 0 && s.Synced == 0 })
	await(t, f, "calls in vain", func(s sidecar.Stats) bool { return s.Failures > 0 })
	startPlane(t, 100, p.address)
	await(t, f, "a fleet in sync with another process",
		func(s sidecar.Stats) bool { return s.Reconnects == 80 && allSynced(s) })
	require.Equal(t, after.Resources, f.Stats().Total().Resources)
}
