package model

import "time"

// Mesh is the name by which a VirtualService refers to all sidecars instead of a gateway.
const Mesh = "mesh"

// VirtualService says how requests for some hosts are routed. Its routes are canonical (Pool): they
// keep their pointers while their content is the same.
type VirtualService struct {
	Meta
	Hosts    []Host   // fully qualified or wildcard
	Gateways []string // "mesh", or "namespace/name"; never empty
	HTTP     []*HTTPRoute
	TLS      []*TLSRoute
	TCP      []*TCPRoute
	ExportTo Exports
}

// HTTPRoute is one entry of spec.http. Exactly one of Broken, Redirect, Direct and Destinations is
// set.
type HTTPRoute struct {
	Name    string
	Matches []*HTTPMatch // any of them; empty matches everything

	// Broken says why the route is not in force as written. Requests that its readable conditions
	// match get a 503, or a 500 with AnswersMissing500. Without the route they would go to the next
	// one.
	Broken       string
	Redirect     *Redirect
	Direct       *DirectResponse
	Destinations []Destination // weights of one route; a single one has weight 100 or 0 alike

	Rewrite *Rewrite
	Timeout time.Duration // 0 means none
	Retries *Retries      // nil means the mesh's default
	Fault   *Fault
	Mirrors []Mirror
	CORS    *CORS
	Headers *HeaderOps
	// Session is that of the rule, in place of its destinations'; nil for theirs.
	Session *Session
	// AnswersMissing500 answers 500 in the place of 503 for a destination that does not exist, as
	// the Gateway API has it.
	AnswersMissing500 bool
}

// HTTPMatch is one HTTPMatchRequest: all its conditions must hold.
type HTTPMatch struct {
	Name           string
	URI            *StringMatch
	IgnoreURICase  bool
	Scheme         *StringMatch
	Method         *StringMatch
	Authority      *StringMatch
	Headers        []HeaderMatch // sorted by name
	WithoutHeaders []HeaderMatch
	Query          []HeaderMatch
	// StatPrefix names statistics that the proxy keeps of the requests; empty for none.
	StatPrefix string

	// The other conditions depend on the class of proxies, not on the request. Scope evaluates
	// them, and translate does not see them.
	Port            uint16
	SourceLabels    Labels
	SourceNamespace string
	Gateways        []string // as in VirtualService; empty means the VirtualService's own
}

// MatchKind says how a StringMatch compares.
type MatchKind uint8

// Present matches any value, so long as there is one.
const (
	Exact MatchKind = iota
	Prefix
	Regex
	Present
	// PathPrefix is a prefix of whole elements of a path, without a slash at its end.
	PathPrefix
)

// StringMatch compares one string. Regex is RE2, over the whole string.
type StringMatch struct {
	Kind  MatchKind
	Value string
}

// HeaderMatch is a condition on a header, a query parameter or a claim.
type HeaderMatch struct {
	Name  string
	Match StringMatch
	// Claim is the names of nested claims of the verified token; nil for a header or parameter.
	Claim []string
}

// Destination is where requests go, with a share of them.
type Destination struct {
	Host   Host
	Subset string
	Port   uint16 // 0: that of PortName, else the service's only port, or the port that was called
	// PortName is the name of a port, used instead of its number (Ingress).
	PortName string
	Weight   uint32
	Headers  *HeaderOps
}

// HeaderOps are header operations on requests and responses.
type HeaderOps struct{ Request, Response HeaderOp }

// HeaderOp sets, adds and removes headers; lists are sorted by name.
type HeaderOp struct {
	Set, Add []Header
	Remove   []string
}

// Header is a name and a value.
type Header struct{ Name, Value string }

// Redirect answers with a redirection. Empty fields keep the request's own.
type Redirect struct {
	URI, Authority, Scheme string
	Path                   *Rewrite // of a part of the path, in the place of URI; nil for none
	Port                   uint16
	PortFromRequest        bool // derivePort FROM_REQUEST_PORT
	PortOfScheme           bool // derivePort FROM_PROTOCOL_DEFAULT
	Code                   uint32
}

// DirectResponse answers without asking anyone.
type DirectResponse struct {
	Status uint32
	Body   []byte
}

// Rewrite changes the path or the authority before forwarding. With Regex set, Substitution
// replaces its matches.
type Rewrite struct {
	URI, Authority      string
	Regex, Substitution string
}

// Retries is a retry policy. Attempts 0 switches retries off.
type Retries struct {
	Attempts              uint32
	PerTryTimeout         time.Duration
	RetryOn               string   // Envoy's conditions, comma-separated
	StatusCodes           []uint32 // of retriable-status-codes
	RemoteLocalities      bool
	IgnorePreviousHosts   bool
	Backoff               time.Duration
	HostSelectionAttempts int64
}

// Fault injects delays and aborts. Percentages are in millionths.
type Fault struct {
	Delay        time.Duration
	DelayPercent uint32
	AbortHTTP    uint32 // a status code; 0 for none
	AbortGRPC    string // a status name; empty for none
	AbortPercent uint32
}

// Mirror copies a share of the requests, in millionths, to another destination.
type Mirror struct {
	Destination Destination
	Percent     uint32
}

// CORS is a cross-origin policy.
type CORS struct {
	Origins          []StringMatch
	Methods          []string
	Headers          []string
	Expose           []string
	MaxAge           time.Duration
	AllowCredentials *bool
	ForwardUnmatched *bool // unmatchedPreflights FORWARD
}

// TLSRoute routes connections by SNI.
type TLSRoute struct {
	Matches      []*L4Match // never empty
	Destinations []Destination
	Broken       string
}

// TCPRoute routes connections by port and source.
type TCPRoute struct {
	Matches      []*L4Match // any of them; empty matches everything
	Destinations []Destination
	Broken       string
}

// L4Match is a TLSMatchAttributes or an L4MatchAttributes; SNIHosts is for TLS alone.
type L4Match struct {
	SNIHosts           []Host
	DestinationSubnets []string
	Port               uint16
	SourceLabels       Labels
	SourceNamespace    string
	Gateways           []string
}
