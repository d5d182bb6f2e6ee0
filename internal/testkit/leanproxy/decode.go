package leanproxy

import (
	"fmt"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// decode reads what is kept of a resource.
func decode(t Type, in *discoveryv3.Resource) (resource, error) {
	r := resource{version: in.GetVersion(), size: len(in.GetResource().GetValue())}
	read := func(m proto.Message) error { return proto.Unmarshal(in.GetResource().GetValue(), m) }
	switch t {
	case Cluster:
		var c clusterv3.Cluster
		if err := read(&c); err != nil {
			return r, err
		}
		if c.GetType() == clusterv3.Cluster_EDS {
			r.refers = []string{c.GetName()}
			if name := c.GetEdsClusterConfig().GetServiceName(); name != "" {
				r.refers = []string{name}
			}
		}
	case Endpoint:
		var a endpointv3.ClusterLoadAssignment
		if err := read(&a); err != nil {
			return r, err
		}
		r.text = addresses(&a)
		for _, locality := range a.GetEndpoints() {
			if c := locality.GetLedsClusterLocalityConfig(); c != nil {
				r.refers = append(r.refers, c.GetLedsCollectionName())
			}
		}
	case Member:
		var e endpointv3.LbEndpoint
		if err := read(&e); err != nil {
			return r, err
		}
		r.text = addressOf(&e)
	case Listener:
		var l listenerv3.Listener
		if err := read(&l); err != nil {
			return r, err
		}
		return r, routesOf(&l, &r)
	case Route:
		var c routev3.RouteConfiguration
		if err := read(&c); err != nil {
			return r, err
		}
		r.vhds = c.GetVhds() != nil
		r.addHosts(c.GetVirtualHosts()...)
	case VirtualHost:
		var v routev3.VirtualHost
		if err := read(&v); err != nil {
			return r, err
		}
		r.addHosts(&v)
	}
	return r, nil
}

func (r *resource) addHosts(hosts ...*routev3.VirtualHost) {
	for _, v := range hosts {
		r.domains = append(r.domains, v.GetDomains()...)
		for _, route := range v.GetRoutes() {
			r.routes = append(r.routes, route.GetName())
		}
	}
}

func addresses(a *endpointv3.ClusterLoadAssignment) string {
	var all []string
	for _, locality := range a.GetEndpoints() {
		for _, e := range locality.GetLbEndpoints() {
			all = append(all, addressOf(e))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func addressOf(e *endpointv3.LbEndpoint) string {
	s := e.GetEndpoint().GetAddress().GetSocketAddress()
	return fmt.Sprintf("%s:%d", s.GetAddress(), s.GetPortValue())
}

func routesOf(l *listenerv3.Listener, into *resource) error {
	for _, chain := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
		for _, f := range chain.GetFilters() {
			var h hcmv3.HttpConnectionManager
			if !f.GetTypedConfig().MessageIs(&h) {
				continue
			}
			if err := f.GetTypedConfig().UnmarshalTo(&h); err != nil {
				return err
			}
			if name := h.GetRds().GetRouteConfigName(); name != "" {
				into.refers = append(into.refers, name)
			}
		}
	}
	return nil
}
