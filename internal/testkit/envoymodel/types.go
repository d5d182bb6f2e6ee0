package envoymodel

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/typeurl"
)

// Kind is one of the resource types that the model knows, in the order in which Envoy opens them on
// a stream.
type Kind int

// The kinds. Members are those of endpoint collections (LEDS).
const (
	Clusters Kind = iota
	Endpoints
	Members
	Listeners
	Routes
	VirtualHosts
	Filters
	numKinds
)

var kinds = [numKinds]struct {
	short, url string
	message    func() validated
}{
	Clusters:     {"cds", typeurl.Cluster, func() validated { return &clusterv3.Cluster{} }},
	Endpoints:    {"eds", typeurl.Endpoint, func() validated { return &endpointv3.ClusterLoadAssignment{} }},
	Members:      {"leds", typeurl.LbEndpoint, func() validated { return &endpointv3.LbEndpoint{} }},
	Listeners:    {"lds", typeurl.Listener, func() validated { return &listenerv3.Listener{} }},
	Routes:       {"rds", typeurl.Route, func() validated { return &routev3.RouteConfiguration{} }},
	VirtualHosts: {"vhds", typeurl.VirtualHost, func() validated { return &routev3.VirtualHost{} }},
	Filters:      {"ecds", typeurl.Filter, func() validated { return &corev3.TypedExtensionConfig{} }},
}

// validated is a message with the rules of protoc-gen-validate, which Envoy applies to all that it
// reads.
type validated interface {
	proto.Message
	Validate() error
}

// String is the short name: cds, eds, leds, lds, rds, vhds, ecds.
func (k Kind) String() string { return kinds[k].short }

// letter is what nonces of the kind begin with in scripts.
func (k Kind) letter() byte {
	switch k {
	case Members:
		return 'm'
	case Filters:
		return 'f'
	}
	return k.String()[0]
}

// wireName is the name on the wire of what the notation calls so.
func wireName(k Kind, name string) string {
	if k == Members {
		return collectionPrefix + name
	}
	return name
}

// URL is the type URL on the wire.
func (k Kind) URL() string { return kinds[k].url }

// wildcard tells that Envoy asks for the kind without names.
func (k Kind) wildcard() bool { return k == Clusters || k == Listeners || k == VirtualHosts }

// covers tells whether who watches a name is told of a resource. The empty name is everything; a
// table watches its virtual hosts, whose names are the table's and a part without a slash; and so a
// collection, which is asked for with a star as that part.
func (k Kind) covers(watched, name string) bool {
	if k == VirtualHosts {
		table, _ := splitHost(name)
		return table == watched
	}
	if k == Members {
		of, _ := splitHost(name)
		return of+"/"+anyMember == watched
	}
	return watched == "" || watched == name
}

// splitHost is the table that a virtual host's name says it belongs to, and the rest.
func splitHost(name string) (table, rest string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 0)], name[i+1:]
}

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
