package envoymodel

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
)

// Kind is one of the resource types that the model knows, in the order in which Envoy opens them on a stream.
type Kind int

// The kinds. Virtual hosts and members of endpoint collections get their places here when Lateen serves them.
const (
	Clusters Kind = iota
	Endpoints
	Listeners
	Routes
	numKinds
)

var kinds = [numKinds]struct {
	short, url string
	message    func() validated
}{
	Clusters:  {"cds", "type.googleapis.com/envoy.config.cluster.v3.Cluster", func() validated { return &clusterv3.Cluster{} }},
	Endpoints: {"eds", "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", func() validated { return &endpointv3.ClusterLoadAssignment{} }},
	Listeners: {"lds", "type.googleapis.com/envoy.config.listener.v3.Listener", func() validated { return &listenerv3.Listener{} }},
	Routes:    {"rds", "type.googleapis.com/envoy.config.route.v3.RouteConfiguration", func() validated { return &routev3.RouteConfiguration{} }},
}

// validated is a message with the rules of protoc-gen-validate, which Envoy applies to all that it reads.
type validated interface {
	proto.Message
	Validate() error
}

// String is the short name: cds, eds, lds, rds.
func (k Kind) String() string { return kinds[k].short }

// URL is the type URL on the wire.
func (k Kind) URL() string { return kinds[k].url }

// wildcard tells that Envoy asks for the kind without names.
func (k Kind) wildcard() bool { return k == Clusters || k == Listeners }

// KindByURL finds a kind by its type URL.
func KindByURL(url string) (Kind, bool) {
	i := slices.IndexFunc(kinds[:], func(k struct {
		short, url string
		message    func() validated
	}) bool {
		return k.url == url
	})
	return Kind(i), i >= 0
}

func kindByName(short string) (Kind, bool) {
	for k := range numKinds {
		if strings.EqualFold(k.String(), short) {
			return k, true
		}
	}
	return 0, false
}
