package pb

import (
	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// The exchange of what peers say of themselves on connections that are not HTTP, by a filter of
// Istio's build of Envoy. It takes place where both sides have agreed on its protocol (ALPN).
const (
	ExchangeFilter   = "istio.metadata_exchange"
	ExchangeProtocol = "istio-peer-exchange"
)

// ConnectionExchange is the configuration of that filter, of listeners and clusters alike.
func ConnectionExchange() *anypb.Any {
	return Structure("envoy.tcp.metadataexchange.config.MetadataExchange", Text("protocol", ExchangeProtocol))
}

// Structure is a message, by its full name, whose type is in no module for Go: its fields as in
// JSON. Envoy reads them as the message.
func Structure(message string, fields *structpb.Struct) *anypb.Any {
	return Any(&udpav1.TypedStruct{TypeUrl: "type.googleapis.com/" + message, Value: fields})
}
