package endpoint

import (
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

const (
	// MaxWeight bounds an endpoint's weight, because Envoy refuses a locality whose weights sum up
	// to more than 32 bits hold; no endpoint can know the sum, but with this bound 65,536 of them
	// stay below.
	MaxWeight = 1<<16 - 1
	// MaxPriority is Envoy's highest priority number.
	MaxPriority = 128
)

// Metadata keys that Istio's telemetry and transport socket matches read.
const (
	istioMetadata  = "istio"
	socketMetadata = "envoy.transport_socket_match"
)

// Endpoint is one endpoint. What is no IP address and port is an error and never encoded: such a
// member of a LEDS collection aborts Envoy's process, where it would refuse the same in an EDS
// list.
func Endpoint(in Input) (*endpointv3.LbEndpoint, error) {
	address, err := address(in.Address, in.Port)
	if err != nil {
		return nil, err
	}
	e := &endpointv3.Endpoint{Address: address}
	if in.Other != "" {
		other, err := gate(in.Other, in.Port)
		if err != nil {
			return nil, err
		}
		e.AdditionalAddresses = []*endpointv3.Endpoint_AdditionalAddress{{Address: pb.Address(other, in.Port)}}
	}
	return &endpointv3.LbEndpoint{
		HostIdentifier:      &endpointv3.LbEndpoint_Endpoint{Endpoint: e},
		HealthStatus:        health(in.Health),
		LoadBalancingWeight: pb.OptionalUint32(min(in.Weight, MaxWeight)),
		Metadata:            metadata(in),
	}, nil
}

// maxSocketPath is how many bytes the path of a Unix socket has at most.
const maxSocketPath = 107

// address returns an address and port, or a Unix socket.
func address(text string, port uint16) (*corev3.Address, error) {
	if socket, unix := strings.CutPrefix(text, model.UnixPrefix); unix {
		if socket == "" || len(socket) > maxSocketPath || port != 0 {
			const message = "endpoint address %q, port %d: want the path of a Unix socket, without a port"
			return nil, fmt.Errorf(message, text, port)
		}
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: socket}}}, nil
	}
	known, err := gate(text, port)
	if err != nil {
		return nil, err
	}
	return pb.Address(known, port), nil
}

// gate returns the address in its canonical spelling. It lets through what a connection can be
// opened to: an IPv4 or IPv6 literal without a zone, which stands for one host. The unspecified
// address would reach the caller's own host.
func gate(address string, port uint16) (string, error) {
	addr, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return "", fmt.Errorf("endpoint address %q: want an IP address", address)
	case addr.Zone() != "":
		return "", fmt.Errorf("endpoint address %q: want an IP address without a zone", address)
	case addr.IsUnspecified() || addr.Unmap().IsUnspecified() || addr.IsMulticast() || addr.Unmap().IsMulticast():
		return "", fmt.Errorf("endpoint address %q: want the address of one host", address)
	case port == 0:
		return "", fmt.Errorf("endpoint %s: port 0: want 1 to 65535", address)
	}
	return addr.String(), nil
}

// health says whether the endpoint gets requests. One that drains keeps those it has.
func health(h model.Health) corev3.HealthStatus {
	switch h {
	case model.Draining, model.Ending:
		return corev3.HealthStatus_DRAINING
	case model.Unhealthy:
		return corev3.HealthStatus_UNHEALTHY
	}
	return corev3.HealthStatus_UNKNOWN // counts as healthy, and costs no bytes
}

// metadata names the workload for the callers' metrics, and tells whether it takes mesh mTLS. Both
// are left out where they say nothing: a mesh has many endpoints.
func metadata(in Input) *corev3.Metadata {
	fields := map[string]*structpb.Struct{}
	if in.Workload != "" {
		fields[istioMetadata] = pb.Text("workload", in.Workload)
	}
	if in.TLS {
		fields[socketMetadata] = pb.TakesMeshTLS()
	}
	if len(fields) == 0 {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: fields}
}

// Assignment is the head of a ClusterLoadAssignment. It has no policy: the overprovisioning factor
// stays Envoy's 140, as in Istio, nothing is dropped by rate, and nothing in it follows from the
// endpoints, so that they alone change with them.
func Assignment(in AssignmentInput) *endpointv3.ClusterLoadAssignment {
	return &endpointv3.ClusterLoadAssignment{ClusterName: in.Cluster}
}

// Group is the head of a LocalityLbEndpoints.
func Group(in GroupInput) *endpointv3.LocalityLbEndpoints {
	g := &endpointv3.LocalityLbEndpoints{
		Priority:            min(in.Priority, MaxPriority),
		LoadBalancingWeight: pb.OptionalUint32(in.Weight),
	}
	if l := in.Locality; l != (model.Locality{}) {
		g.Locality = &corev3.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.Subzone}
	}
	return g
}
