package proxystats

import "strconv"

// Names of statistics and of what carries them. Envoy's exposition puts "envoy_" and Prefix in
// front of a name.
const (
	// Prefix is that of Istio's own filters, so that patterns which keep those keep these.
	Prefix = "istiocustom"
	Tag    = "fields"

	Duration        = "istio_request_duration_milliseconds"
	RequestBytes    = "istio_request_bytes"
	ResponseBytes   = "istio_response_bytes"
	RequestsTotal   = "istio_requests_total" // the number of durations
	TCPOpened       = "istio_tcp_connections_opened_total"
	TCPClosed       = "istio_tcp_connections_closed_total"
	TCPSent         = "istio_tcp_sent_bytes_total"
	TCPReceived     = "istio_tcp_received_bytes_total"
	MaxStats        = 1000 // of each kind, of one access logger; server.stats_overflow counts more
	MaxPeerBytes    = 512  // of PeerHeader; the rest is cut off
	MetadataKey     = "LATEEN_STATS"
	MetadataValue   = "1"           // the version of this form
	PeerVariable    = "LATEEN_PEER" // of Envoy's environment: the proxy's own Workload
	PeerHeader      = "x-lateen-peer"
	PeerState       = "lateen.peer" // filter state: PeerHeader of a peer that has proved to be one
	EndpointSpace   = "istio"       // metadata of endpoints
	EndpointKey     = "workload"    // in EndpointSpace: the endpoint's Workload
	SocketSpace     = "envoy.transport_socket_match"
	SocketKey       = "tlsMode" // in SocketSpace: set where an endpoint takes mutual TLS of the mesh
	fromSource      = "1s"
	fromDestination = "1d"
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
	answer     = "%RESPONSE_CODE% %GRPC_STATUS_NUMBER% %RESPONSE_FLAGS% "
)

// RequestFormat is the format string of the tag of requests.
func RequestFormat(by Reporter) string {
	if by == Source {
		return fromSource + " " + answer + sourcePeer
	}
	return fromDestination + " " + answer + callerPeer + " %FILTER_STATE(" + PeerState + ":PLAIN)%"
}

// PeerFormat is the format string of what a peer says of its workload.
func PeerFormat() string { return "%REQ(" + PeerHeader + "):" + strconv.Itoa(MaxPeerBytes) + "%" }

// ConnectionFormat is the format string of the tag of connections that are not HTTP.
func ConnectionFormat(by Reporter) string {
	if by == Source {
		return fromSource + " %RESPONSE_FLAGS% " + sourcePeer
	}
	return fromDestination + " %RESPONSE_FLAGS% " + callerPeer
}
