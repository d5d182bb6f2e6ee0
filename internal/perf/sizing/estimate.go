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

// Mesh is the size of a mesh and the rate of its changes.
type Mesh struct {
	Sidecars int `json:"sidecars"`
	Services int `json:"services"`
	// Pods counts all pods, those without sidecars too.
	Pods int `json:"pods"`
	// Seen is the share of services that a sidecar sees, and of sidecars that see a change. It is 1
	// without Sidecar resources or exportTo.
	Seen float64 `json:"seen"`
	// Changes is how many changes of Kind there are each second.
	Changes float64 `json:"changesPerSecond"`
	Kind    string  `json:"kind"`
}

// Limits are what one replica may use.
type Limits struct {
	Cores  float64 `json:"cores"`
	Memory float64 `json:"memoryBytes"`
	// Headroom is the share of memory added for garbage. Lateen's default (GOGC=50) needs 0.5.
	Headroom float64 `json:"headroom"`
	// Busy is the share of the cores that steady changes may use.
	Busy float64 `json:"busy"`
	// LastSidecar limits the CPU time, on all cores, until one change is sent to the last sidecar.
	// Connect limits that of all sidecars reconnecting.
	LastSidecar measure.Seconds `json:"lastSidecarSeconds"`
	Connect     measure.Seconds `json:"connectSeconds"`
	// Sidecars is how many sidecars a replica may have, for its file descriptors. 0 is no limit.
	Sidecars int `json:"sidecars,omitempty"`
	// Spare is how many replicas may be down while the limits hold.
	Spare int `json:"spare"`
}

// MaxPushesPerSecond is how many pushes a sidecar receives at most: the debounce joins changes
// within 100 ms.
const MaxPushesPerSecond = 10

// Estimate is what a mesh needs. Its Replica is one of those left when the spare replicas are down.
type Estimate struct {
	Mesh     Mesh `json:"mesh"`
	Replicas int  `json:"replicas"`
	// LimitingFactor names the limit that requires so many replicas.
	LimitingFactor string  `json:"decides"`
	Replica        Replica `json:"replica"`
	// Total is the sum over all replicas.
	Total Total `json:"total"`
}

// Replica is what one replica needs.
type Replica struct {
	Sidecars int `json:"sidecars"`
	// Memory of the process and the mesh, of the sidecars, and of both with the headroom.
	MeshBytes     float64 `json:"worldBytes"`
	SidecarsBytes float64 `json:"sidecarsBytes"`
	MemoryBytes   float64 `json:"memoryBytes"`
	// Cores is what steady changes use. LastSidecar and Connect are as in Limits.
	Cores       float64         `json:"cores"`
	LastSidecar measure.Seconds `json:"lastSidecarSeconds"`
	Connect     measure.Seconds `json:"connectSeconds"`
	// Sent and Received are the traffic with sidecars for steady changes.
	Sent     float64 `json:"sentBytesPerSecond"`
	Received float64 `json:"receivedBytesPerSecond"`
}

// Total is what all replicas need together.
type Total struct {
	MemoryBytes float64 `json:"memoryBytes"`
	Cores       float64 `json:"cores"`
	Sent        float64 `json:"sentBytesPerSecond"`
	// ConnectBytes is the traffic when all sidecars connect for the first time.
	ConnectBytes float64 `json:"connectBytes"`
}

// Validate reports what cannot be estimated.
func (m Mesh) Validate(c Constants) error {
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

// Kinds returns the kinds of changes that were measured.
func (c Constants) Kinds() (kinds []string) {
	for k := range c.Change {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// MeshBytes returns the memory of a replica without sidecars but with their shared configuration:
// base + services · (a + b) + pods · c.
func (c Constants) MeshBytes(m Mesh) float64 {
	return c.BaseBytes + float64(m.Services)*(c.ServiceBytes+c.TranslatedBytes) + float64(m.Pods)*c.PodBytes
}

// FirstConnection returns the cost of connecting one sidecar: a + b · services that it sees.
func (c Constants) FirstConnection(m Mesh) Cost {
	return c.Connect.Add(c.ConnectService.Times(m.Seen * float64(m.Services)))
}

// Replica returns what a replica with so many sidecars of a mesh needs.
func (c Constants) Replica(m Mesh, l Limits, sidecars int) Replica {
	n := float64(sidecars)
	one := c.Change[m.Kind]
	r := Replica{Sidecars: sidecars, MeshBytes: c.MeshBytes(m), SidecarsBytes: n * c.SidecarBytes}
	r.MemoryBytes = (r.MeshBytes + r.SidecarsBytes) * (1 + l.Headroom)
	// Changes within one debounce cost their own bytes, but the CPU of one push.
	seen := n * m.Seen
	r.Cores = seen * min(m.Changes, MaxPushesPerSecond) * one.CPUSeconds
	r.Sent, r.Received = seen*m.Changes*one.Sent, seen*min(m.Changes, MaxPushesPerSecond)*one.Received
	r.LastSidecar = seconds(seen * one.CPUSeconds / l.Cores)
	r.Connect = seconds(n * c.FirstConnection(m).CPUSeconds / l.Cores)
	return r
}

// seconds converts to the type of reports. It saturates at the longest time.
func seconds(s float64) measure.Seconds {
	return measure.Seconds(min(s*float64(time.Second), math.MaxInt64/2))
}

// exceeded names the limit that a replica exceeds, or returns "".
func (l Limits) exceeded(r Replica) string {
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

// Estimate returns how many replicas a mesh needs so that each stays within the limits, and what
// each needs. The need of a replica grows with its sidecars, so bisection finds the most that one
// can serve.
func (c Constants) Estimate(m Mesh, l Limits) (Estimate, error) {
	if err := errors.Join(m.Validate(c), l.validate()); err != nil {
		return Estimate{}, err
	}
	if limit := l.exceeded(c.Replica(m, l, 1)); limit != "" {
		one := c.Replica(m, l, 1)
		return Estimate{}, fmt.Errorf(
			"%s: a replica with one sidecar is over the limit already: it needs %s, and one connects in %s",
			limit,
			formatBytes(one.MemoryBytes),
			formatDuration(one.Connect),
		)
	}
	most, over := 1, m.Sidecars+1
	for over-most > 1 {
		if n := most + (over-most)/2; l.exceeded(c.Replica(m, l, n)) == "" {
			most = n
		} else {
			over = n
		}
	}
	e := Estimate{Mesh: m, LimitingFactor: l.exceeded(c.Replica(m, l, most+1))}
	working := (m.Sidecars + most - 1) / most
	if working == 1 {
		e.LimitingFactor = "none: one replica bears all"
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

func (l Limits) validate() error {
	switch {
	case l.Cores <= 0 || l.Memory <= 0 || l.Busy <= 0:
		return errors.New(
			"a replica has a part of a core, some memory, and a share of the cores for changes: want more than 0",
		)
	case l.Headroom < 0 || l.Spare < 0 || l.Sidecars < 0:
		return errors.New("headroom, spare replicas and sidecars of a replica: want 0 or more")
	}
	return nil
}
