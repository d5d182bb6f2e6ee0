package perf

import (
	"cmp"
	"fmt"

	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
	"github.com/lateen-mesh/lateen/internal/perf/load"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Report is what one run has found. Times are seconds, sizes bytes.
type Report struct {
	Scenario string `json:"scenario"`
	// Command is what was run, for who wants to run it again.
	Command      string                   `json:"command"`
	Lateen       string                   `json:"lateen"`
	ControlPlane controlplane.Description `json:"controlPlane"`
	Machine      measure.Machine          `json:"machine"`
	Mesh         load.Shape               `json:"mesh"`
	// Capacity are the rows of the tables by which control planes are compared; the largest number that was borne comes last if one
	// was searched for.
	Capacity []Capacity `json:"capacity,omitempty"`
	Phases   []Phase    `json:"phases"`
	// Notes are what a reader should know of the numbers.
	Notes []string `json:"notes,omitempty"`
}

// Seconds is a time as reports have it.
type Seconds = measure.Seconds

// Phase is a part of a run. What is zero was not measured, or there was none.
type Phase struct {
	Name     string `json:"name"`
	Sidecars int    `json:"sidecars"`
	Changes  int    `json:"changes,omitempty"`
	// Time is how long it took, from the first write until all had everything.
	Time Seconds `json:"seconds"`
	// Latency is the time from just before a change was written until it arrived, of each change and each sidecar that it concerns.
	// Last is that of each change's last sidecar. An acknowledgement is written right after.
	Latency *measure.Summary `json:"latency,omitempty"`
	Last    *measure.Summary `json:"lastSidecar,omitempty"`
	// Removal and LastRemoval are the same of pods that went: until a sidecar knew. They are of the first service's pods.
	Removal     *measure.Summary `json:"removal,omitempty"`
	LastRemoval *measure.Summary `json:"lastSidecarOfRemoval,omitempty"`
	// Ready is the time from when a sidecar first dialled, or lost its stream, until it had all that it asked for.
	Ready *measure.Summary `json:"ready,omitempty"`
	// Rate is how many sidecars came or went each second.
	Rate float64 `json:"sidecarsPerSecond,omitempty"`
	// CPU is the control plane's, LoadCPU that of this process: the simulated sidecars and who writes.
	CPU     Seconds `json:"cpuSeconds"`
	LoadCPU Seconds `json:"loadCPUSeconds"`
	// Received came from the control plane, Sent went to it, of all sidecars.
	Received  int64 `json:"receivedBytes"`
	Sent      int64 `json:"sentBytes"`
	Responses int64 `json:"responses"`
	Refused   int64 `json:"refusedResponses,omitempty"`
	Turned    int64 `json:"refusedStreams,omitempty"`
	Broken    int64 `json:"brokenConnections,omitempty"`
	// Allocated and Allocations are the control plane's on its heap, where its metrics tell.
	Allocated   uint64 `json:"allocatedBytes,omitempty"`
	Allocations uint64 `json:"allocations,omitempty"`
	// Collecting is how much of CPU the control plane spent on garbage collection, where its metrics tell.
	Collecting Seconds `json:"gcSeconds,omitempty"`
	// Resident and Peak are the control plane's memory at the end, and at most until then; LoadResident is that of this process at the
	// end. Sockets is the kernel's memory for what all TCP sockets of this machine hold, those of both ends, at the end, and PeakSockets
	// the most that was seen meanwhile.
	Resident     int64 `json:"residentBytes"`
	Peak         int64 `json:"peakBytes,omitempty"`
	LoadResident int64 `json:"loadResidentBytes,omitempty"`
	Sockets      int64 `json:"socketBytes,omitempty"`
	PeakSockets  int64 `json:"peakSocketBytes,omitempty"`
}

// Cores is how many CPUs the control plane took on average.
func (p *Phase) Cores() float64 {
	if p.Time == 0 {
		return 0
	}
	return float64(p.CPU) / float64(p.Time)
}

// Capacity is a row as in the tables that Azure publishes of its Istio add-on: the sidecars that one control plane bears.
type Capacity struct {
	Services int `json:"services"`
	// Churn is how many of a hundred sidecars went and came back, Rate how many went or came each second.
	Churn    int     `json:"churnPercent"`
	Rate     float64 `json:"churnPerSecond,omitempty"`
	Sidecars int     `json:"sidecars"`
	Memory   int64   `json:"memoryBytes"`
	// Cores is the CPU that the control plane took on average, while sidecars connected if there was no churn.
	Cores float64 `json:"cpuCores"`
	// P99 is that of a change's time to a sidecar.
	P99 Seconds `json:"p99Seconds"`
	// Borne tells that it stayed within the limits of a search.
	Borne bool `json:"borne"`
	// Why says what limit was passed.
	Why string `json:"why,omitempty"`
}

// Subject is the control plane that was measured.
func (r Report) Subject() string {
	return r.ControlPlane.Name + " " + cmp.Or(r.ControlPlane.Version, "of unknown version")
}

// Title is what was measured, in a few lines.
func (r Report) Title() string {
	m := r.Machine
	return fmt.Sprintf("%s\n%s, %s: services %s, namespaces %s, pods %s\n%d CPUs (%s), %d GiB", r.Command, r.Subject(), r.ControlPlane.Source, count(int64(r.Mesh.AllServices())),
		count(int64(r.Mesh.Namespaces+r.Mesh.UnmanagedNamespaces)), count(int64(r.Mesh.AllPods())), m.Cores, cmp.Or(m.CPU, m.Arch), (m.Memory+1<<29)>>30)
}
