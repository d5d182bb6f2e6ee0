package convert

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/cel"
)

// Operators of Envoy 1.40's format strings. Those of other extensions of Envoy are not among them.
const (
	plainOperators = "REQUEST_DURATION REQUEST_TX_DURATION RESPONSE_DURATION RESPONSE_TX_DURATION " +
		"DOWNSTREAM_HANDSHAKE_DURATION ROUNDTRIP_DURATION UPSTREAM_CONNECTION_POOL_READY_DURATION CUSTOM_FLAGS " +
		"DURATION BYTES_RECEIVED BYTES_SENT BYTES_RETRANSMITTED PACKETS_RETRANSMITTED " +
		"UPSTREAM_WIRE_BYTES_RECEIVED UPSTREAM_HEADER_BYTES_RECEIVED UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED " +
		"UPSTREAM_WIRE_BYTES_SENT UPSTREAM_HEADER_BYTES_SENT UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT " +
		"DOWNSTREAM_WIRE_BYTES_RECEIVED DOWNSTREAM_HEADER_BYTES_RECEIVED " +
		"DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED DOWNSTREAM_WIRE_BYTES_SENT DOWNSTREAM_HEADER_BYTES_SENT " +
		"DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT PROTOCOL UPSTREAM_PROTOCOL RESPONSE_CODE RESPONSE_CODE_DETAILS " +
		"CONNECTION_TERMINATION_DETAILS RESPONSE_FLAGS RESPONSE_FLAGS_LONG UPSTREAM_CONNECTION_ID UPSTREAM_HOST " +
		"UPSTREAM_HOST_NAME UPSTREAM_HOST_NAME_WITHOUT_PORT UPSTREAM_CLUSTER UPSTREAM_CLUSTER_RAW " +
		"UPSTREAM_LOCAL_ADDRESS UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT UPSTREAM_LOCAL_PORT UPSTREAM_REMOTE_ADDRESS " +
		"UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT UPSTREAM_REMOTE_PORT UPSTREAM_REQUEST_ATTEMPT_COUNT " +
		"UPSTREAM_TLS_CIPHER UPSTREAM_TLS_VERSION UPSTREAM_TLS_SESSION_ID UPSTREAM_PEER_ISSUER " +
		"UPSTREAM_PEER_SUBJECT UPSTREAM_PEER_CERT UPSTREAM_PEER_URI_SAN UPSTREAM_PEER_DNS_SAN UPSTREAM_PEER_IP_SAN " +
		"UPSTREAM_TRANSPORT_FAILURE_REASON DOWNSTREAM_REMOTE_ADDRESS DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT " +
		"DOWNSTREAM_REMOTE_PORT DOWNSTREAM_DIRECT_REMOTE_ADDRESS DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT " +
		"DOWNSTREAM_DIRECT_REMOTE_PORT DOWNSTREAM_LOCAL_ADDRESS DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT " +
		"DOWNSTREAM_LOCAL_PORT DOWNSTREAM_DIRECT_LOCAL_ADDRESS DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT " +
		"DOWNSTREAM_DIRECT_LOCAL_PORT DOWNSTREAM_LOCAL_URI_SAN DOWNSTREAM_LOCAL_DNS_SAN DOWNSTREAM_LOCAL_IP_SAN " +
		"DOWNSTREAM_LOCAL_SUBJECT DOWNSTREAM_PEER_URI_SAN DOWNSTREAM_PEER_DNS_SAN DOWNSTREAM_PEER_IP_SAN " +
		"DOWNSTREAM_PEER_SUBJECT DOWNSTREAM_PEER_ISSUER DOWNSTREAM_PEER_SERIAL DOWNSTREAM_PEER_FINGERPRINT_256 " +
		"DOWNSTREAM_PEER_FINGERPRINT_1 DOWNSTREAM_PEER_CERT DOWNSTREAM_TLS_SESSION_ID DOWNSTREAM_TLS_CIPHER " +
		"DOWNSTREAM_TLS_VERSION DOWNSTREAM_TRANSPORT_FAILURE_REASON CONNECTION_ID STREAM_ID REQUESTED_SERVER_NAME " +
		"ROUTE_NAME VIRTUAL_CLUSTER_NAME HOSTNAME FILTER_CHAIN_NAME TLS_JA3_FINGERPRINT TLS_JA4_FINGERPRINT " +
		"UNIQUE_ID ACCESS_LOG_TYPE GRPC_STATUS_NUMBER LOCAL_REPLY_BODY REQUEST_HEADERS_BYTES " +
		"RESPONSE_HEADERS_BYTES RESPONSE_TRAILERS_BYTES TRACE_ID"
	timeOperators     = "START_TIME START_TIME_LOCAL EMIT_TIME EMIT_TIME_LOCAL"
	headerOperators   = "REQ RESP TRAILER"
	metadataOperators = "DYNAMIC_METADATA CLUSTER_METADATA UPSTREAM_METADATA"
	stateOperators    = "FILTER_STATE UPSTREAM_FILTER_STATE"
	nameOperators     = "ENVIRONMENT QUERY_PARAM"
	typedOperators    = "METADATA"                                                // of a kind of object
	cutOperators      = "REQ RESP TRAILER DYNAMIC_METADATA FILTER_STATE METADATA" // may have a length
)

var (
	expression   = regexp.MustCompile(`^%CEL\((.*?)\)(:[0-9]{1,6})?%`)
	operator     = regexp.MustCompile(`^%([A-Z0-9_]+)(\(([^)]*)\))?(:[0-9]{1,6})?%`)
	printable    = regexp.MustCompile(`^[ -~]*$`)
	someHeaders  = regexp.MustCompile(`^:?[!#$&'*+.^_|~0-9A-Za-z-]+(\?:?[!#$&'*+.^_|~0-9A-Za-z-]+)?$`)
	someName     = regexp.MustCompile(`^[0-9A-Za-z_.-]+$`)
	someMetadata = regexp.MustCompile(`^[0-9A-Za-z_.-]+(:[0-9A-Za-z_./-]+)*$`)
	someTyped    = regexp.MustCompile(
		`^(DYNAMIC|CLUSTER|ROUTE|UPSTREAM_HOST|LISTENER|VIRTUAL_HOST)(:[0-9A-Za-z_./-]+)+$`)
	someState = regexp.MustCompile(`^[0-9A-Za-z_./-]+(:(PLAIN|TYPED))?$`)
)

// logFormatMistake says why Envoy does not take a format string; "" if it does.
func logFormatMistake(text string) string {
	for {
		at := strings.IndexByte(text, '%')
		if at < 0 {
			return ""
		}
		text = text[at:]
		if strings.HasPrefix(text, "%%") {
			text = text[2:]
			continue
		}
		if found := expression.FindStringSubmatch(text); found != nil {
			if err := cel.Check(found[1]); err != nil {
				return fmt.Sprintf("gives the operator CEL an expression that %s", err)
			}
			text = text[len(found[0]):]
			continue
		}
		found := operator.FindStringSubmatch(text)
		if found == nil {
			return "has a % that begins no operator"
		}
		if mistake := operatorMistake(found[1], found[2] != "", found[3], found[4] != ""); mistake != "" {
			return mistake
		}
		text = text[len(found[0]):]
	}
}

// operatorMistake says what is wrong with one operator: its name, whether it has an argument and
// which, and whether it limits its length.
func operatorMistake(name string, given bool, argument string, cut bool) string {
	var form *regexp.Regexp
	switch {
	case hasWord(plainOperators, name):
		if given || cut {
			return fmt.Sprintf("gives the operator %s an argument or a length, which it has not", name)
		}
		return ""
	case hasWord(timeOperators, name):
		if cut || !printable.MatchString(argument) {
			return fmt.Sprintf("gives the operator %s a length, or a format that cannot be printed", name)
		}
		return ""
	case hasWord(headerOperators, name):
		form = someHeaders
	case hasWord(metadataOperators, name):
		form = someMetadata
	case hasWord(typedOperators, name):
		form = someTyped
	case hasWord(stateOperators, name):
		form = someState
	case hasWord(nameOperators, name):
		form = someName
	default:
		return fmt.Sprintf("has the operator %s, which Envoy does not know, or Lateen does not support yet", name)
	}
	if cut && !hasWord(cutOperators, name) {
		return fmt.Sprintf("gives the operator %s a length, which it has not", name)
	}
	if !form.MatchString(argument) {
		return fmt.Sprintf("gives the operator %s no argument that it takes: %q", name, argument)
	}
	return ""
}
