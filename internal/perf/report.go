package perf

import (
	"cmp"
	"fmt"

	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Report is the result of one run. Times are seconds, sizes bytes.
type Report struct {
	Scenario string `json:"scenario"`
	// Command is the command line, to run it again.
	Command      string                   `json:"command"`
	Lateen       string                   `json:"lateen"`
	ControlPlane controlplane.Description `json:"controlPlane"`
	Machine      measure.Machine          `json:"machine"`
	Mesh         load.Shape               `json:"mesh"`
	// Capacity are the rows of the capacity table. The result of a search comes last.
	Capacity []Capacity `json:"capacity,omitempty"`
	Phases   []Phase    `json:"phases"`
	// Notes say what a reader should know about the numbers.
	Notes []string `json:"notes,omitempty"`
}

// Seconds is a time in reports.
type Seconds = measure.Seconds

// Phase is a part of a run. A zero field was not measured, or counted nothing.
type Phase struct {
	Name     string `json:"name"`
	Sidecars int    `json:"sidecars"`
	Changes  int    `json:"changes,omitempty"`
	// Time runs from the first write until all sidecars had everything.
	Time Seconds `json:"seconds"`
	// Latency is the time from just before a change was written until it arrived, over all changes
	// and all sidecars that see them. Last is the time to each change's last sidecar. An
	// acknowledgement is written right after arrival.
	Latency *measure.Summary `json:"latency,omitempty"`
	Last    *measure.Summary `json:"lastSidecar,omitempty"`
	// Removal and LastRemoval are the same for removals of pods of the first service.
	Removal     *measure.Summary `json:"removal,omitempty"`
	LastRemoval *measure.Summary `json:"lastSidecarOfRemoval,omitempty"`
	// Ready is the time from a sidecar's first dial, or from the loss of its stream, until it had
	// everything it asked for.
	Ready *measure.Summary `json:"ready,omitempty"`
	// Rate is how many sidecars were removed or added each second.
	Rate float64 `json:"sidecarsPerSecond,omitempty"`
	// CPU is the control plane's, and LoadCPU this process's: the simulated sidecars and the writer
	// of changes.
	CPU     Seconds `json:"cpuSeconds"`
	LoadCPU Seconds `json:"loadCPUSeconds"`
	// Received came from the control plane, Sent went to it, of all sidecars.
	Received          int64 `json:"receivedBytes"`
	Sent              int64 `json:"sentBytes"`
	Responses         int64 `json:"responses"`
	Refused           int64 `json:"refusedResponses,omitempty"`
	RefusedStreams    int64 `json:"refusedStreams,omitempty"`
	BrokenConnections int64 `json:"brokenConnections,omitempty"`
	// Allocated and Allocations count the control plane's heap, where its metrics tell.
	Allocated   uint64 `json:"allocatedBytes,omitempty"`
	Allocations uint64 `json:"allocations,omitempty"`
	// GCTime is the part of CPU that went into garbage collection, where the control plane's
	// metrics tell.
	GCTime Seconds `json:"gcSeconds,omitempty"`
	// Resident is the control plane's memory at the end of the phase, and Peak the highest so far.
	// LoadResident is this process's memory at the end. Sockets is the kernel's memory for all TCP
	// sockets of this machine at the end, both ends included, and PeakSockets the highest sample of
	// it.
	Resident     int64 `json:"residentBytes"`
	Peak         int64 `json:"peakBytes,omitempty"`
	LoadResident int64 `json:"loadResidentBytes,omitempty"`
	Sockets      int64 `json:"socketBytes,omitempty"`
	PeakSockets  int64 `json:"peakSocketBytes,omitempty"`
}

// Cores returns how many CPUs the control plane used on average.
func (p *Phase) Cores() float64 {
	if p.Time == 0 {
		return 0
	}
	return float64(p.CPU) / float64(p.Time)
}

// Capacity is a row as in the tables that Azure publishes for its Istio add-on: how many sidecars
// one control plane serves.
type Capacity struct {
	Services int `json:"services"`
	// Churn is the percentage of sidecars that was replaced, and Rate how many removals and
	// additions there were each second.
	Churn    int     `json:"churnPercent"`
	Rate     float64 `json:"churnPerSecond,omitempty"`
	Sidecars int     `json:"sidecars"`
	Memory   int64   `json:"memoryBytes"`
	// Cores is the control plane's average CPU use, measured while sidecars connected if there was
	// no churn.
	Cores float64 `json:"cpuCores"`
	// P99 is of the time from a change to a sidecar.
	P99 Seconds `json:"p99Seconds"`
	// Sustained reports whether the run stayed within the limits of a search.
	Sustained bool `json:"borne"`
	// Why names the limit that was exceeded.
	Why string `json:"why,omitempty"`
}

// Subject names the control plane that was measured.
func (r Report) Subject() string {
	return r.ControlPlane.Name + " " + cmp.Or(r.ControlPlane.Version, "of unknown version")
}

// Title says in a few lines what was measured.
func (r Report) Title() string {
	m := r.Machine
	return fmt.Sprintf("%s\n%s, %s: services %s, namespaces %s, pods %s\n%d CPUs (%s), %d GiB", r.Command, r.Subject(),
		r.ControlPlane.Source, formatCount(int64(r.Mesh.AllServices())),
		formatCount(int64(
			r.Mesh.Namespaces+r.Mesh.UnmanagedNamespaces,
		)), formatCount(int64(r.Mesh.AllPods())), m.Cores, cmp.Or(m.CPU, m.Arch), (m.Memory+1<<29)>>30)
}
