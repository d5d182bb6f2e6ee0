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

	// Subscribe, Unsubscribe and InitialVersions are delta's fields; versions are as the client states them.
	Subscribe, Unsubscribe []string
	InitialVersions        map[string]string
	// Lists, unless it is nil, has what would be in Subscribe and InitialVersions. These may be thousands, and are mostly names that
	// the class has; so they are not copied before that is known. Nobody holds on to it when the session has taken the request.
	Lists Lists

	// Names and VersionInfo are state of the world's fields.
	Names       []string
	VersionInfo string
}

// Nack is the client's own account of why it refused a response.
type Nack struct {
	Code    int32
	Message string
}

// Response is one response to send. The shell encodes it; it is fully described by values.
type Response struct {
	// Type is meaningful unless Unknown is set.
	Type resource.Type
	// Unknown is the type URL of an empty answer to a request for a type that is not served.
	Unknown string
	Nonce   string
	// Version is version_info, unique on the stream, and not what the client brought to it. Delta has none: its system_version_info
	// is for people who debug, and would be a tenth of what one endpoint's change costs on the wire.
	Version string
	// Upserts are the resources; what is sent of each is Overlay.Body under Overlay.Version.
	Upserts []*resource.Resource
	// Removed are names (delta only).
	Removed []string
	// Shared is set when Upserts are exactly Shared.Upserts and none is the proxy's own: then the encoded frame is shared
	// among all sessions that make the same step.
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
	// Nack is the client's message on the latest refusal, empty after the next accepted response that covers it.
	Nack string
	// Quarantined are names kept from this client, because it refused their present version.
	Quarantined []string
	// Withheld are names of which this client keeps something older, whole or in part, or nothing, because the present version
	// refers to something that is quarantined.
	Withheld  []string
	Resources int
	Bytes     int
	// Settled tells that nothing of the type waits to be sent or to be answered.
	Settled bool
}
