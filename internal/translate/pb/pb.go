package pb

import (
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// Marshal is the one encoding of messages: equal messages have equal bytes in every process of the
// same binary, maps included. It fails only for a string that is not UTF-8, which the
// conversion lets through nowhere.
func Marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// Any packs a message, with the encoding of Marshal. Where Marshal would fail it is empty, without
// even a type: Envoy refuses that wherever a type is needed, rather than take a filter or a
// transport socket for its defaults.
func Any(m proto.Message) *anypb.Any {
	value, err := Marshal(m)
	if err != nil {
		return &anypb.Any{}
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: value}
}

// Duration is a duration that is written down even when it is 0.
func Duration(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// OptionalDuration is a duration for which 0 means unset.
func OptionalDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// OptionalUint32 is a number for which 0 means unset.
func OptionalUint32(n uint32) *wrapperspb.UInt32Value {
	if n == 0 {
		return nil
	}
	return wrapperspb.UInt32(n)
}

// Millionths is a share of requests, from 0 to 1,000,000.
func Millionths(n uint32) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: n, Denominator: typev3.FractionalPercent_MILLION}
}

// Address is a port of an IP, of a host name where Envoy looks it up, or of a placeholder for one.
func Address(host string, port uint16) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: Socket(host, port)}}
}

// Socket is Address where a message has nothing but sockets.
func Socket(host string, port uint16) *corev3.SocketAddress {
	return &corev3.SocketAddress{Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)}}
}

// OutboundCluster is the name of the cluster of a service port, or of a subset of it:
// "outbound|9080|v1|reviews.default.svc.cluster.local". Tools and EnvoyFilters of Istio know
// clusters by it.
func OutboundCluster(host model.Host, port uint16, subset string) string {
	return "outbound|" + strconv.Itoa(int(port)) + "|" + subset + "|" + string(host)
}
