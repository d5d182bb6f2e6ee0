package sidecar

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"
)

// Protocol is the variant of xDS that sidecars speak.
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

// Options say what a fleet does. As JSON they are without what only this process has.
type Options struct {
	// Targets are the control plane's addresses, "127.0.0.1:15010"; sidecars take them in turn, and another at each attempt. Each
	// pair of a target and a source has about 28,000 ports.
	Targets []string
	// Sources are the local addresses to connect from, taken in turn; empty leaves it to the system.
	Sources  []netip.Addr
	Protocol Protocol
	// Loops is how many goroutines do the work; 0 is one for each CPU, at most 4.
	Loops int
	// Seed decides what is drawn: jitter, and whom a share applies to.
	Seed    uint64
	Backoff Backoff
	// Window is HTTP/2's flow control window of a stream in bytes, and of a connection times 1.5; 0 is Envoy's 16 MiB.
	Window uint32
	// FetchTimeout is how long a sidecar waits for endpoints or routes before it goes on without (initial_fetch_timeout); 0 is
	// Envoy's 15 s.
	FetchTimeout time.Duration
	// TLS encrypts if it is not nil; a sidecar then costs crypto/tls's state, and a goroutine while it shakes hands. Token is sent as a bearer token
	// with each stream; nil sends none.
	TLS   *tls.Config                    `json:"-"`
	Token func(Identity) (string, error) `json:"-"`
	// Secrets are those that sidecars ask for (SDS) together with listeners, and NameTable lets them ask for the table of an agent's DNS
	// proxy (NDS), as agents do. Whether they are in sync does not depend on the answers: a control plane may have none.
	Secrets   []string
	NameTable bool
	// Mesh says what is the same in all nodes.
	Mesh Mesh

	// Classify looks at a resource that has not been seen before and returns its mark, 0 for none. It is called once for each
	// distinct type, name, version and body, and by each loop for itself: it must be safe for concurrent use, and its answer may
	// be asked for anew once no sidecar holds the resource. May be nil.
	Classify func(Resource) Mark `json:"-"`
	// Arrived is told of each marked resource that reaches a sidecar which did not hold it (of members of collections, which are not
	// held: whenever they come), and of each that it held and is told to remove, by the sidecar's loop and before the acknowledgement is written. It must not block, and not call methods that
	// wait for the loop: Close, Resources, Holds. May be nil.
	Arrived func(Arrival) `json:"-"`
	// Synced is told each time when a sidecar has all that it asked for after it had not, by its loop. It must not block. May be
	// nil.
	Synced func(*Sidecar, time.Time) `json:"-"`
	// Log takes what goes wrong: refused streams, messages that cannot be read. nil discards it.
	Log *slog.Logger `json:"-"`
}

// Backoff is how long a sidecar waits before it connects again: a time drawn from [0, Base·2ⁿ) up to Max, where n counts the
// attempts since the last response, as Envoy's JitteredExponentialBackOffStrategy does.
type Backoff struct {
	Base time.Duration // 0 is 500 ms
	Max  time.Duration // 0 is 30 s
}

// Mesh is what Istio's agents of a mesh say alike.
type Mesh struct {
	ClusterID    string // "Kubernetes" if empty
	MeshID       string // "cluster.local" if empty
	Network      string
	IstioVersion string // "1.31.0" if empty
	// Metadata are further fields of the node's metadata, or others for the usual ones.
	Metadata map[string]any
}

// Identity says who a sidecar is.
type Identity struct {
	Namespace, Pod string
	Address        netip.Addr
	ServiceAccount string // "default" if empty
	NodeName       string
	Labels         map[string]string // not copied: it must not change
	// Router makes it the Envoy of a gateway.
	Router bool
	// Locality is the Node.locality that it states, "region/zone/subzone"; empty states none.
	Locality string
}

// Manners say how a sidecar departs from Envoy's behaviour. The zero value is a sidecar that does not.
type Manners struct {
	// NackShare of the responses are refused: 0 none, 1 all. Which ones, the seed decides. What is refused is not taken in.
	NackShare float64
	// AckAfter is how long a response waits for its answer.
	AckAfter time.Duration
	// Deaf sidecars read nothing more once they are synced; their window and socket fill up.
	Deaf bool
	// ReadRate is how many bytes a second a sidecar reads at most; 0 is no limit.
	ReadRate int
	// Flood is how many needless requests it sends a second: subscriptions to what is subscribed.
	Flood int
	// Forgetful sidecars connect again as if they had nothing.
	Forgetful bool
}

// Mark tells what a resource means to whoever measures; 0 means nothing.
type Mark uint64

// Resource is one that a control plane sent.
type Resource struct {
	TypeURL string
	// Name is the resource's, in state of the world read from the body. Version is the resource's, or in state of the world the
	// response's.
	Name, Version string
	// Body is the encoded message. It is valid only during the call.
	Body []byte
}

// Arrival is a marked resource that came to a sidecar, or that it was told to remove.
type Arrival struct {
	Sidecar *Sidecar
	Mark    Mark
	Removed bool
	At      time.Time // when its bytes were read from the socket
}
