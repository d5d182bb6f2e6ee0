package perf

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
)

// Fleet runs simulated sidecars. Its methods are safe for concurrent use.
type Fleet interface {
	// Start connects the proxy of a pod, and reconnects it whenever its stream breaks, until stop
	// is called. It does not wait.
	Start(pod load.Pod) (stop func())
	// StartMisbehaving connects the proxies of pods at once. They misbehave as the disturbance
	// says; those of MassConnect behave.
	StartMisbehaving(pods []load.Pod, s Disturbance) (Misbehaving, error)
	// Totals sums over all well-behaved proxies ever started, those that have stopped included.
	Totals() Totals
	// Close stops all well-behaved proxies and waits until their connections are closed.
	Close()
}

// Misbehaving is a group of proxies that misbehave.
type Misbehaving interface {
	// Synced returns how many of them have everything they asked for.
	Synced() int
	// Stop stops them, and returns errors that are not part of the misbehaviour.
	Stop() error
}

// Hooks are the callbacks of a fleet. It calls them from any goroutine, and they must not block.
type Hooks struct {
	// Classify returns the mark of a resource, or 0. It is called once for each distinct resource,
	// however many proxies receive it.
	Classify func(typeURL, name string, body []byte) uint64
	// Collected returns the mark of the first answer to a collection of endpoints (LEDS), or 0. It
	// is given the name of the assignment and the marks of all members. It may be nil.
	Collected func(assignment string, members []uint64) uint64
	// Arrived is called when the proxy of a pod has received a marked resource, or its removal, and
	// before it acknowledges that.
	Arrived func(pod string, mark uint64, removed bool, at time.Time)
	// Synced is called when the proxy of a pod has everything it asked for, each time this becomes
	// true.
	Synced func(pod string, at time.Time)
}

// Totals counts what happened on the wire, as the clients see it.
type Totals struct {
	// Received and Sent are bytes of all connections, HTTP/2 framing included.
	Received, Sent int64
	// Responses counts responses received, and Refused those that were NACKed.
	Responses, Refused int64
	// RefusedStreams counts failed attempts to open a stream.
	RefusedStreams int64
	// BrokenConnections counts connections on which something unreadable came.
	BrokenConnections int64
}

func (t Totals) minus(o Totals) Totals {
	return Totals{
		Received:          t.Received - o.Received,
		Sent:              t.Sent - o.Sent,
		Responses:         t.Responses - o.Responses,
		Refused:           t.Refused - o.Refused,
		RefusedStreams:    t.RefusedStreams - o.RefusedStreams,
		BrokenConnections: t.BrokenConnections - o.BrokenConnections,
	}
}
