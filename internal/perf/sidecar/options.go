package sidecar

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"
)

// Protocol is the variant of xDS that sidecars use.
type Protocol uint8

// The variants of the aggregated discovery service.
const (
	Delta           Protocol = iota // DeltaAggregatedResources
	StateOfTheWorld                 // StreamAggregatedResources
)

// String is the protocol's name, "delta" or "state of the world".
func (p Protocol) String() string {
	if p == StateOfTheWorld {
		return "state of the world"
	}
	return "delta"
}

// Options configure a fleet. Their JSON omits what belongs to this process.
type Options struct {
	// Targets are the control plane's addresses, as "127.0.0.1:15010". Sidecars use them in turn,
	// and try another at each attempt. Each pair of a target and a source has about 28,000 ports.
	Targets []string
	// Sources are the local addresses to connect from, in turn. Empty leaves it to the system.
	Sources  []netip.Addr
	Protocol Protocol
	// Loops is how many goroutines serve the sidecars. 0 means one for each CPU, at most 4.
	Loops int
	// Seed determines all random choices: jitter, and to whom a share applies.
	Seed    uint64
	Backoff Backoff
	// Window is HTTP/2's flow control window of a stream in bytes. A connection has 1.5 times as
	// much. 0 means Envoy's 16 MiB.
	Window uint32
	// FetchTimeout is how long a sidecar waits for endpoints or routes before it goes on without
	// them (initial_fetch_timeout). 0 means Envoy's 15 s.
	FetchTimeout time.Duration
	// TLS encrypts connections. It costs each sidecar crypto/tls's state, and a goroutine during
	// the handshake. Token returns a bearer token for each stream. Both may be nil.
	TLS   *tls.Config                    `json:"-"`
	Token func(Identity) (string, error) `json:"-"`
	// Secrets are the secrets (SDS) to which sidecars subscribe together with listeners. NameTable
	// makes them ask for the table of the agent's DNS proxy (NDS). Sync does not depend on the
	// answers, because a control plane may have none.
	Secrets   []string
	NameTable bool
	// Mesh is the part of the node that all sidecars share.
	Mesh Mesh

	// Classify returns the mark of a new resource, or 0. Each loop calls it once for each distinct
	// type, name, version and body, and again when no sidecar has held the resource meanwhile. It
	// must be safe for concurrent use. It may be nil.
	Classify func(Resource) Mark `json:"-"`
	// Arrived is called for each marked resource that reaches a sidecar which did not hold it, and
	// for each that a sidecar held and is told to remove. Members of collections are not held, so
	// it is called whenever they come. The sidecar's loop calls it before it writes the
	// acknowledgement. It must not block, and must not call Close, Resources or Holds, which wait
	// for the loop. It may be nil.
	Arrived func(Arrival) `json:"-"`
	// Collected returns the mark of the first answer to a collection, or 0. It is given the name of
	// the assignment and the marks of all members. Each loop calls it once for each distinct
	// answer, and Arrived with it behind the members. It may be nil.
	Collected func(assignment string, members []Mark) Mark `json:"-"`
	// Synced is called by a sidecar's loop each time the sidecar gets everything it asked for. It
	// must not block. It may be nil.
	Synced func(*Sidecar, time.Time) `json:"-"`
	// Log receives errors: refused streams, unreadable messages. nil discards them.
	Log *slog.Logger `json:"-"`
}

// Backoff is the wait before a reconnect: a random time of [0, Base·2ⁿ) up to Max, where n counts
// the attempts since the last response. So does Envoy's JitteredExponentialBackOffStrategy.
type Backoff struct {
	Base time.Duration // 0 is 500 ms
	Max  time.Duration // 0 is 30 s
}

// Mesh is what all Istio agents of a mesh send.
type Mesh struct {
	ClusterID    string // "Kubernetes" if empty
	MeshID       string // "cluster.local" if empty
	Network      string
	IstioVersion string // "1.31.0" if empty
	// Metadata adds fields to the node's metadata, or replaces the usual ones.
	Metadata map[string]any
}

// Identity is who a sidecar is.
type Identity struct {
	Namespace, Pod string
	Address        netip.Addr
	ServiceAccount string // "default" if empty
	NodeName       string
	Labels         map[string]string // not copied: it must not change
	// Router makes it the Envoy of a gateway.
	Router bool
	// Locality is its Node.locality as "region/zone/subzone". Empty sends none.
	Locality string
}

// Faults are deviations from Envoy's behaviour. The zero value has none.
type Faults struct {
	// NackShare is the share of responses that are refused: 0 none, 1 all. The seed selects them. A
	// refused response changes nothing.
	NackShare float64
	// AckDelay is the time between a response and its answer.
	AckDelay time.Duration
	// StopsReading ends all reads after the first sync. The window and the socket fill up.
	StopsReading bool
	// ReadRate limits reads to so many bytes a second. 0 is no limit.
	ReadRate int
	// FloodRate is how many needless requests it sends a second: subscriptions to what it has
	// subscribed to.
	FloodRate int
	// ForgetsVersions makes it reconnect as if it held nothing.
	ForgetsVersions bool
}

// Mark is what the user of a fleet knows of a resource. 0 means nothing.
type Mark uint64

// Resource is a resource from a control plane.
type Resource struct {
	TypeURL string
	// Name is the resource's name, which in state of the world is read from the body. Version is
	// the resource's, or in state of the world the response's.
	Name, Version string
	// Body is the encoded message. It is valid only during the call.
	Body []byte
}

// Arrival is a marked resource that a sidecar has received, or was told to remove.
type Arrival struct {
	Sidecar *Sidecar
	Mark    Mark
	Removed bool
	At      time.Time // when its bytes were read from the socket
}
