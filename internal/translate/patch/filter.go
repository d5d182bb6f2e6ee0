package patch

import (
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	directv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/direct_response/v3"
	echov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	redisv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/redis_proxy/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	thriftv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/thrift_proxy/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// networkFilters applies patches to the network filters of a chain, and to what is in them.
func (r *run) networkFilters(l *listenerv3.Listener, c *listenerv3.FilterChain) {
	// As in Istio, filters are merged into after others have been put between them.
	for _, merges := range []bool{false, true} {
		for i, p := range r.of(model.PatchNetworkFilter) {
			if p.Operation.Merges() != merges || !matchesListener(p, l) || !matchesChain(p.Listener, l, c) {
				continue
			}
			of := list[*listenerv3.Filter]{items: c.GetFilters(), ends: endsConnections}
			of.merge = mergeFilter[*listenerv3.Filter]
			if name := p.Listener.Chain.Filter; name != "" {
				of.is = func(f *listenerv3.Filter) bool { return f.GetName() == name }
			}
			items, n, err := of.edit(p, value[*listenerv3.Filter])
			c.Filters = items
			r.note(i, n, err)
		}
	}
	if !r.has(model.PatchHTTPFilter) && !r.hasRoutes() {
		return
	}
	for _, f := range c.GetFilters() {
		r.requests(l, c, f)
	}
}

// hasRoutes reports whether there are patches of routes, which may stand in a listener.
func (r *run) hasRoutes() bool {
	return r.has(model.PatchRouteConfiguration) || r.has(model.PatchVirtualHost) || r.has(model.PatchHTTPRoute)
}

// requests applies patches to what is in a connection manager: filters of requests, and the routes
// where they stand there.
func (r *run) requests(l *listenerv3.Listener, c *listenerv3.FilterChain, f *listenerv3.Filter) {
	manager := &hcmv3.HttpConnectionManager{}
	if !f.GetTypedConfig().MessageIs(manager) || f.GetTypedConfig().UnmarshalTo(manager) != nil {
		return
	}
	before := proto.CloneOf(manager)
	for _, merges := range []bool{false, true} {
		for i, p := range r.of(model.PatchHTTPFilter) {
			name := p.Listener.Chain.Filter
			if p.Operation.Merges() == merges && matchesListener(p, l) && matchesChain(p.Listener, l, c) &&
				(name == "" || name == f.GetName()) {
				items, n, err := filtersOf(manager.GetHttpFilters(), p).edit(p, requestFilter)
				manager.HttpFilters = items
				r.note(i, n, err)
			}
		}
	}
	if t := manager.GetRouteConfig(); t != nil && r.hasRoutes() {
		r.wholeTable(t, TableSite{Context: r.context, Name: t.GetName()})
	}
	if !proto.Equal(before, manager) {
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: pb.Any(manager)}
	}
}

// Names of filters of Istio's build of Envoy. With pb.ExchangeFilter they are places where there is
// no such filter.
const (
	istioALPN  = "istio.alpn"
	istioStats = "istio.stats"
)

// filtersOf returns the filters of requests as a patch changes them.
func filtersOf(items []*hcmv3.HttpFilter, p Patch) list[*hcmv3.HttpFilter] {
	of := list[*hcmv3.HttpFilter]{items: items, ends: endsRequests, merge: mergeFilter[*hcmv3.HttpFilter]}
	if p.Class != model.AnyClass {
		at := placeOfClass(items, p.Class)
		of.at = &at
	}
	name := p.Listener.Chain.SubFilter
	if name == "" {
		return of
	}
	of.is = func(f *hcmv3.HttpFilter) bool { return f.GetName() == name }
	if of.named() >= 0 || p.Operation != model.PatchInsertBefore && p.Operation != model.PatchInsertAfter {
		return of
	}
	if isOfPolicies(name) {
		of.is = func(f *hcmv3.HttpFilter) bool { return f.GetName() == pb.PolicyFilters }
	}
	of.at = placeOf(items, name)
	return of
}

// placeOf returns where a filter of Istio's build would stand; nil for any other name.
func placeOf(items []*hcmv3.HttpFilter, name string) *int {
	at := 0
	switch name {
	case pb.ExchangeFilter:
	case istioALPN, istioStats:
		if at = slices.IndexFunc(items, endsRequests); at < 0 {
			at = len(items)
		}
	default:
		return nil
	}
	return &at
}

// placeOfClass returns the place of a class of filters: behind the last one of those that it is to
// follow, of an absent one behind that before it.
func placeOfClass(items []*hcmv3.HttpFilter, class model.FilterClass) int {
	if class == model.StatsClass {
		at := slices.IndexFunc(items, func(f *hcmv3.HttpFilter) bool {
			return f.GetName() == istioStats || endsRequests(f)
		})
		if at < 0 {
			return len(items)
		}
		return at
	}
	follows := []string{pb.ExchangeFilter, pb.TokenFilter, pb.PolicyFilters}
	if class == model.AuthorizationClass || class == model.LimitClass {
		follows = append(follows, pb.ExtAuthzFilter, pb.RBACFilter)
	}
	for i, f := range slices.Backward(items) {
		if slices.Contains(follows, f.GetName()) {
			return i + 1
		}
	}
	return 0
}

// requestFilter makes the filter of requests that a patch adds.
func requestFilter(p Patch) (*hcmv3.HttpFilter, error) {
	f, err := value[*hcmv3.HttpFilter](p)
	if err != nil || !p.Apart {
		return f, err
	}
	f.ConfigType = &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: discovered(p)}
	return f, nil
}

func endsRequests(f *hcmv3.HttpFilter) bool { return f.GetTypedConfig().MessageIs(&routerv3.Router{}) }

// endsConnections reports whether a network filter must be the last one.
func endsConnections(f *listenerv3.Filter) bool {
	return slices.ContainsFunc([]proto.Message{
		&hcmv3.HttpConnectionManager{}, &tcpv3.TcpProxy{}, &redisv3.RedisProxy{}, &thriftv3.ThriftProxy{},
		&directv3.Config{}, &echov3.Echo{},
	}, f.GetTypedConfig().MessageIs)
}

// filter is a filter of any kind.
type filter interface {
	proto.Message
	GetTypedConfig() *anypb.Any
}

// mergeFilter merges the value of a patch into a filter: its configuration too, which is packed. A
// filter that is a resource of its own has none.
func mergeFilter[F filter](p Patch, to F) (bool, error) {
	from, err := value[F](p)
	if err != nil || to.GetTypedConfig() == nil {
		return false, err
	}
	config := to.GetTypedConfig()
	if change := from.GetTypedConfig(); change != nil {
		if config, err = mergerOf(p).packed(config, change); err != nil {
			return false, err
		}
	}
	field := to.ProtoReflect().Descriptor().Fields().ByName("typed_config")
	from.ProtoReflect().Clear(field)
	mergerOf(p).message(to.ProtoReflect(), from.ProtoReflect())
	to.ProtoReflect().Set(field, protoreflect.ValueOfMessage(config.ProtoReflect()))
	return true, nil
}
