package proxystats

import (
	"slices"
	"strconv"
	"strings"
)

// Names of statistics and of what carries them. Envoy's exposition puts "envoy_" and Prefix in
// front of a name.
const (
	// Prefix is that of Istio's own filters, so that patterns which keep those keep these.
	Prefix = "istiocustom"
	Tag    = "fields"

	Duration      = "istio_request_duration_milliseconds"
	RequestBytes  = "istio_request_bytes"
	ResponseBytes = "istio_response_bytes"
	RequestsTotal = "istio_requests_total" // the number of durations
	TCPOpened     = "istio_tcp_connections_opened_total"
	TCPClosed     = "istio_tcp_connections_closed_total"
	TCPSent       = "istio_tcp_sent_bytes_total"
	TCPReceived   = "istio_tcp_received_bytes_total"
	// RequestMessages and ResponseMessages count requests of gRPC. How many messages each had is in
	// MessagesTag, "2,0": Envoy shows both numbers as one text.
	RequestMessages  = "istio_request_messages_total"
	ResponseMessages = "istio_response_messages_total"
	MessagesTag      = "messages"
	MessagesFormat   = "%FILTER_STATE(envoy.filters.http.grpc_stats:PLAIN)%"
	MaxStats         = 1000 // of each kind, of one access logger; server.stats_overflow counts more
	MaxPeerBytes     = 512  // of PeerHeader; the rest is cut off
	MetadataKey      = "LATEEN_STATS"
	MetadataValue    = "1"           // the version of this form
	PeerVariable     = "LATEEN_PEER" // of Envoy's environment: the proxy's own Workload
	PeerHeader       = "x-lateen-peer"
	PeerState        = "lateen.peer" // filter state: PeerHeader of a peer that has proved to be one
	EndpointSpace    = "istio"       // metadata of endpoints
	EndpointKey      = "workload"    // in EndpointSpace: the endpoint's Workload
	SocketSpace      = "envoy.transport_socket_match"
	SocketKey        = "tlsMode" // in SocketSpace: set where an endpoint takes mutual TLS of the mesh
	fromSource       = "1s"
	fromDestination  = "1d"
	optionSign       = "," // in front of each option of a Form, behind the reporter
	withoutSign      = "-" // in an option, in front of a label
	uncountedOption  = "u"
)

// Reporter is the side of a call that counts it.
type Reporter uint8

const (
	// Source is the proxy of the caller.
	Source Reporter = iota
	// Destination is the proxy of the workload that is called.
	Destination
)

// Format strings of Envoy. Fields are separated by spaces. The last one of a destination comes from
// the peer and may hold anything, so nothing stands behind it.
const (
	sourcePeer = "%UPSTREAM_PEER_URI_SAN% %UPSTREAM_CLUSTER_RAW% %METADATA(UPSTREAM_HOST:istio:workload)%"
	callerPeer = "%DOWNSTREAM_PEER_URI_SAN% %REQUESTED_SERVER_NAME%"
	code       = "%RESPONSE_CODE%"
	grpcStatus = "%GRPC_STATUS_NUMBER%"
	flags      = "%RESPONSE_FLAGS%"
	nothing    = "-"
)

// Labels that Envoy's tag holds on their own, so that without them there are fewer statistics.
const (
	CodeLabel  = "response_code"
	FlagsLabel = "response_flags"
)

// Form is which of Istio's labels a statistic is for. Envoy writes it in front of the values, as
// text that is the same for all requests.
type Form struct {
	By Reporter
	// Without are labels that the metric does not have.
	Without []string
	// Uncounted says of durations that requests are counted by a statistic of their own.
	Uncounted bool
}

// head is what Fields.Form is read from: "1s", or "1d,-response_code,u".
func (f Form) head() string {
	var head strings.Builder
	head.WriteString(fromSource)
	if f.By == Destination {
		head.Reset()
		head.WriteString(fromDestination)
	}
	for _, label := range f.Without {
		head.WriteString(optionSign + withoutSign + label)
	}
	if f.Uncounted {
		head.WriteString(optionSign + uncountedOption)
	}
	return head.String()
}

// value is an operator of a label, unless the metric does not have it.
func (f Form) value(label, operator string) string {
	if slices.Contains(f.Without, label) {
		return nothing
	}
	return operator
}

// RequestFormat is the format string of the tag of requests.
func (f Form) RequestFormat() string {
	answer := f.head() + " " + f.value(CodeLabel, code) + " " + grpcStatus + " " + f.value(FlagsLabel, flags) + " "
	if f.By == Source {
		return answer + sourcePeer
	}
	return answer + callerPeer + " %FILTER_STATE(" + PeerState + ":PLAIN)%"
}

// PeerFormat is the format string of what a peer says of its workload.
func PeerFormat() string { return "%REQ(" + PeerHeader + "):" + strconv.Itoa(MaxPeerBytes) + "%" }

// NodeFormat is the format string of the workload by the metadata of a proxy's node, as injectors
// of Istio set it. It is for proxies whose environment has no PeerVariable.
func NodeFormat() string {
	fields := []string{".WORKLOAD_NAME", ".NAMESPACE"}
	for _, label := range []string{canonicalNameLabel, canonicalRevisionLabel} {
		fields = append(fields, ".LABELS['"+label+"']")
	}
	fields = append(fields, ".CLUSTER_ID", ".LABELS['"+appLabel+"']", ".LABELS['"+versionLabel+"']")
	for i, field := range fields {
		fields[i] = "%CEL(xds.node.metadata" + field + "):" + strconv.Itoa(maxField) + "%"
	}
	return strings.Join(fields, ";")
}

// ConnectionFormat is the format string of the tag of connections that are not HTTP.
func (f Form) ConnectionFormat() string {
	head := f.head() + " " + f.value(FlagsLabel, flags) + " "
	if f.By == Source {
		return head + sourcePeer
	}
	return head + callerPeer
}
