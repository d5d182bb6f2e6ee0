package listener

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// Names of Envoy's extensions that more than one file needs.
const (
	connectionManagerFilter = "envoy.filters.network.http_connection_manager"
	tcpProxyFilter          = "envoy.filters.network.tcp_proxy"
)

// wildcardAddresses returns a port at each of several addresses, as Stack.Wildcards.
func wildcardAddresses(binds []string, port uint16) (first *corev3.Address, more []*listenerv3.AdditionalAddress) {
	for _, bind := range binds[1:] {
		more = append(more, &listenerv3.AdditionalAddress{Address: pb.Address(bind, port)})
	}
	return pb.Address(binds[0], port), more
}

// outboundAddresses are those of a listener for the workload's calls: bind, or with "" any address.
func (c builder) outboundAddresses(bind string, port uint16) (*corev3.Address, []*listenerv3.AdditionalAddress) {
	if bind == "" {
		return wildcardAddresses(c.Stack.Wildcards(), port)
	}
	return addressOf(bind, port), nil
}

// addressOf returns the address of a port at an IP, or a Unix socket.
func addressOf(bind string, port uint16) *corev3.Address {
	if socket, unix := strings.CutPrefix(bind, model.UnixPrefix); unix {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: socket}}}
	}
	return pb.Address(bind, port)
}

// bound returns nil for a listener that has its port, and false for one that only gets redirected
// connections.
func bound(toPort bool) *wrapperspb.BoolValue {
	if toPort {
		return nil
	}
	return wrapperspb.Bool(false)
}

func networkFilter(name string, config proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(config)}}
}

func listenerFilter(name string, config proto.Message) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{
		Name:       name,
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: pb.Any(config)},
	}
}

// with returns the Common, or the zero value for nil, for a listener with these filters.
func (c *Common) with(filters *AuthFilters) builder {
	common := c.orZero()
	common.authFilters = filters
	return common
}

// inbound returns what with does, for a listener of calls to the workload.
func (c *Common) inbound(filters *AuthFilters) builder {
	common := c.with(filters)
	common.reporter = proxystats.Destination
	return common
}

// orZero returns the Common, or the zero value for nil.
func (c *Common) orZero() builder {
	if c == nil {
		return builder{}
	}
	return builder{Common: *c}
}
