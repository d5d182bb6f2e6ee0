package perf

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/load"
)

// Fleet are simulated sidecars. Its methods are safe for concurrent use.
type Fleet interface {
	// Start lets the proxy of a pod connect, and connect again whenever its stream breaks, until it is stopped. It returns at once.
	Start(pod load.Pod) (stop func())
	// StartSick lets proxies of pods connect at once that misbehave: that are deaf, late, or flood; those of a crowd behave.
	StartSick(pods []load.Pod, s Sickness) (Patients, error)
	// Totals are what all proxies but patients ever did, those that were stopped included.
	Totals() Totals
	// Close stops all but patients, and returns when they are gone.
	Close()
}

// Patients are proxies that misbehave.
type Patients interface {
	// Synced is how many of them have all that they asked for.
	Synced() int
	// Stop ends them, and tells what went wrong with them that was not meant to.
	Stop() error
}

// Hooks are what a fleet calls, from any goroutine. None may block.
type Hooks struct {
	// Classify tells the mark of a resource, 0 for none; once for each distinct one, however many proxies it comes to.
	Classify func(typeURL, name string, body []byte) uint64
	// Arrived is called when a marked resource has come to the proxy of a pod, or the proxy was told to remove it, before that
	// acknowledges it.
	Arrived func(pod string, mark uint64, removed bool, at time.Time)
	// Synced is called when the proxy of a pod has all that it asked for, after it had not.
	Synced func(pod string, at time.Time)
}

// Totals are counts of what happened on the wire, as the clients see it.
type Totals struct {
	// Received and Sent are bytes of all connections, the framing of HTTP/2 included.
	Received, Sent int64
	// Responses were received, and Refused of them NACKed.
	Responses, Refused int64
	// Turned are attempts to open a stream that failed.
	Turned int64
	// Broken are connections on which something came that could not be read.
	Broken int64
}

func (t Totals) minus(o Totals) Totals {
	return Totals{
		Received: t.Received - o.Received, Sent: t.Sent - o.Sent, Responses: t.Responses - o.Responses, Refused: t.Refused - o.Refused, Turned: t.Turned - o.Turned,
		Broken: t.Broken - o.Broken,
	}
}
