package sizing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Mesh says how large a mesh is and how much of it changes.
type Mesh struct {
	Sidecars int `json:"sidecars"`
	Services int `json:"services"`
	// Pods are all, those without sidecars too.
	Pods int `json:"pods"`
	// Seen is the share of services that a sidecar sees, and of sidecars that see a change: 1 without Sidecar resources or exportTo.
	Seen float64 `json:"seen"`
	// Changes are made each second, of one Kind.
	Changes float64 `json:"changesPerSecond"`
	Kind    string  `json:"kind"`
}

// Limits are what one replica may take.
type Limits struct {
	Cores  float64 `json:"cores"`
	Memory float64 `json:"memoryBytes"`
	// Headroom is the share of memory added for garbage: 0.5 is what Lateen lets grow by default (GOGC=50).
	Headroom float64 `json:"headroom"`
	// Busy is the share of the cores that steady changes may take.
	Busy float64 `json:"busy"`
	// LastSidecar bounds the CPU time, on all cores, until one change is on its way to the last sidecar; Connect that of all sidecars
	// connecting anew.
	LastSidecar measure.Seconds `json:"lastSidecarSeconds"`
	Connect     measure.Seconds `json:"connectSeconds"`
	// Sidecars is the most that a replica takes, for its file descriptors; 0 is no limit.
	Sidecars int `json:"sidecars,omitempty"`
	// Spare replicas may be away while the limits hold.
	Spare int `json:"spare"`
}

// MostPushes is how many a sidecar is sent each second at most: the debounce makes one of changes within 100 ms.
const MostPushes = 10

// Estimate is what a mesh would need. What it says of a replica holds while the spare ones are away.
type Estimate struct {
	Mesh     Mesh `json:"mesh"`
	Replicas int  `json:"replicas"`
	// Decides is the limit that asks for so many replicas.
	Decides string  `json:"decides"`
	Replica Replica `json:"replica"`
	// Total is of all replicas.
	Total Total `json:"total"`
}

// Replica is what one needs.
type Replica struct {
	Sidecars int `json:"sidecars"`
	// Bytes of memory: for the process and the mesh, for the sidecars, and both with the headroom.
	WorldBytes    float64 `json:"worldBytes"`
	SidecarsBytes float64 `json:"sidecarsBytes"`
	MemoryBytes   float64 `json:"memoryBytes"`
	// Cores are what steady changes take, LastSidecar and Connect as in Limits.
	Cores       float64         `json:"cores"`
	LastSidecar measure.Seconds `json:"lastSidecarSeconds"`
	Connect     measure.Seconds `json:"connectSeconds"`
	// BytesPerSecond go to and come from sidecars for steady changes.
	Sent     float64 `json:"sentBytesPerSecond"`
	Received float64 `json:"receivedBytesPerSecond"`
}

// Total is what all replicas need together.
type Total struct {
	MemoryBytes float64 `json:"memoryBytes"`
	Cores       float64 `json:"cores"`
	Sent        float64 `json:"sentBytesPerSecond"`
	// ConnectBytes go over the wire when all sidecars connect for the first time.
	ConnectBytes float64 `json:"connectBytes"`
}

// Check tells what cannot be estimated.
func (m Mesh) Check(c Constants) error {
	_, known := c.Change[m.Kind]
	switch {
	case m.Sidecars < 1 || m.Services < 1:
		return errors.New("a mesh has at least one sidecar and one service")
	case m.Pods < m.Sidecars:
		return fmt.Errorf("%d pods: want at least one for each of the %d sidecars", m.Pods, m.Sidecars)
	case m.Seen <= 0 || m.Seen > 1:
		return fmt.Errorf("a share of %v of the services is seen: want more than 0, and 1 at most", m.Seen)
	case m.Changes < 0:
		return errors.New("changes each second: want 0 or more")
	case !known:
		return fmt.Errorf("changes of %q were not measured: want %s", m.Kind, strings.Join(c.Kinds(), ", "))
	}
	return nil
}

// Kinds are those of changes that were measured.
func (c Constants) Kinds() (kinds []string) {
	for k := range c.Change {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// World is the memory of a replica without sidecars, but with what they are sent: base + services · (a + b) + pods · c.
func (c Constants) World(m Mesh) float64 {
	return c.BaseBytes + float64(m.Services)*(c.ServiceBytes+c.TranslatedBytes) + float64(m.Pods)*c.PodBytes
}

// FirstConnection is what connecting one sidecar costs: a + b · services that it sees.
func (c Constants) FirstConnection(m Mesh) Cost {
	return c.Connect.Add(c.ConnectService.Times(m.Seen * float64(m.Services)))
}

// Replica is what one needs that has so many sidecars of a mesh.
func (c Constants) Replica(m Mesh, l Limits, sidecars int) Replica {
	n := float64(sidecars)
	one := c.Change[m.Kind]
	r := Replica{Sidecars: sidecars, WorldBytes: c.World(m), SidecarsBytes: n * c.SidecarBytes}
	r.MemoryBytes = (r.WorldBytes + r.SidecarsBytes) * (1 + l.Headroom)
	// Changes that come closer together than a push lasts cost their bytes, but one push.
	seen := n * m.Seen
	r.Cores = seen * min(m.Changes, MostPushes) * one.CPUSeconds
	r.Sent, r.Received = seen*m.Changes*one.Sent, seen*min(m.Changes, MostPushes)*one.Received
	r.LastSidecar = seconds(seen * one.CPUSeconds / l.Cores)
	r.Connect = seconds(n * c.FirstConnection(m).CPUSeconds / l.Cores)
	return r
}

// seconds is a time as reports have it; what is longer than it can say is the longest.
func seconds(s float64) measure.Seconds {
	return measure.Seconds(min(s*float64(time.Second), math.MaxInt64/2))
}

// passed names the limit that a replica does not keep, or nothing.
func (l Limits) passed(r Replica) string {
	switch {
	case r.MemoryBytes > l.Memory:
		return "memory"
	case l.Sidecars > 0 && r.Sidecars > l.Sidecars:
		return "sidecars of a replica"
	case r.Cores > l.Busy*l.Cores:
		return "CPU of steady changes"
	case r.LastSidecar > l.LastSidecar:
		return "a change to the last sidecar"
	case r.Connect > l.Connect:
		return "all sidecars connecting"
	}
	return ""
}

// Estimate says how many replicas a mesh needs such that each keeps the limits, and what each needs. More sidecars never need less, so
// the most that one replica bears is found by bisection.
func (c Constants) Estimate(m Mesh, l Limits) (Estimate, error) {
	if err := errors.Join(m.Check(c), l.check()); err != nil {
		return Estimate{}, err
	}
	if limit := l.passed(c.Replica(m, l, 1)); limit != "" {
		one := c.Replica(m, l, 1)
		return Estimate{}, fmt.Errorf("%s: a replica with one sidecar is over the limit already: it needs %s, and one connects in %s", limit,
			size(one.MemoryBytes), short(one.Connect))
	}
	most, over := 1, m.Sidecars+1
	for over-most > 1 {
		if n := most + (over-most)/2; l.passed(c.Replica(m, l, n)) == "" {
			most = n
		} else {
			over = n
		}
	}
	e := Estimate{Mesh: m, Decides: l.passed(c.Replica(m, l, most+1))}
	working := (m.Sidecars + most - 1) / most
	if working == 1 {
		e.Decides = "none: one replica bears all"
	}
	e.Replicas = working + l.Spare
	e.Replica = c.Replica(m, l, (m.Sidecars+working-1)/working)
	all := c.Replica(m, l, m.Sidecars)
	e.Total = Total{
		MemoryBytes: e.Replica.MemoryBytes * float64(e.Replicas), Cores: all.Cores, Sent: all.Sent,
		ConnectBytes: c.FirstConnection(m).Sent * float64(m.Sidecars),
	}
	return e, nil
}

func (l Limits) check() error {
	switch {
	case l.Cores <= 0 || l.Memory <= 0 || l.Busy <= 0:
		return errors.New("a replica has a part of a core, some memory, and a share of the cores for changes: want more than 0")
	case l.Headroom < 0 || l.Spare < 0 || l.Sidecars < 0:
		return errors.New("headroom, spare replicas and sidecars of a replica: want 0 or more")
	}
	return nil
}
