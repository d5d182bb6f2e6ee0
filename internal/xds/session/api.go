package session

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// Protocol is the xDS variant of a stream.
type Protocol uint8

const (
	// Delta is DeltaAggregatedResources.
	Delta Protocol = iota
	// StateOfTheWorld is StreamAggregatedResources.
	StateOfTheWorld
)

// Request is one DiscoveryRequest or DeltaDiscoveryRequest, without what the session does not need.
type Request struct {
	TypeURL string
	// Nonce is the response_nonce; empty on a request that answers no response.
	Nonce string
	// Nack is set when the client refused the response with that nonce.
	Nack *Nack

	// Subscribe, Unsubscribe and InitialVersions are fields of delta requests. Versions are as the
	// client reports them.
	Subscribe, Unsubscribe []string
	InitialVersions        map[string]string
	// Lists, unless it is nil, has what would be in Subscribe and InitialVersions. There may be
	// thousands of names, and mostly the class has them all; so they are not copied before that is
	// known. Nobody keeps it after the session has taken the request.
	Lists Lists

	// Names and VersionInfo are fields of state-of-the-world requests.
	Names       []string
	VersionInfo string
}

// Nack is the client's own account of why it refused a response.
type Nack struct {
	Code    int32
	Message string
}

// Response is one response to send. Values describe it in full; package fanout encodes it.
type Response struct {
	// Type is meaningful unless Unknown is set.
	Type resource.Type
	// Unknown is the type URL of an empty answer to a request for a type that is not served.
	Unknown string
	Nonce   string
	// Version is version_info. It is unique on the stream, and differs from the version that the
	// client brought to it. Delta responses have none: system_version_info only helps people who
	// debug, and would add a tenth to the bytes of one endpoint's change.
	Version string
	// Upserts are the resources. Of each, Overlay.Body is sent under Overlay.Version.
	Upserts []*resource.Resource
	// Removed are names (delta only).
	Removed []string
	// Shared is set when Upserts are exactly Shared.Upserts and none differs between proxies. All
	// sessions that make the same step share the encoded frame.
	Shared *resource.Change
	// Generation is that of the state the response brings the client to.
	Generation uint64
}

// TypeStatus is where a session stands with one type.
type TypeStatus struct {
	Subscribed bool
	// Sent and Acked are nonces of the latest response and of the latest that the client accepted.
	Sent, Acked string
	SentAt      time.Time
	// Generation of the state that the client accepted last in full.
	Generation uint64
	// Nack is the client's message on the latest refusal, empty after the next accepted response
	// that covers it.
	Nack string
	// Quarantined are names kept from this client, because it refused their present version.
	Quarantined []string
	// Withheld are names of which this client keeps something older, in part or as a whole, or
	// nothing. The present version refers to something that is quarantined.
	Withheld  []string
	Resources int
	Bytes     int
	// Settled is set if nothing of the type waits to be sent or to be answered.
	Settled bool
}
