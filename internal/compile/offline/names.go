package offline

import (
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// naming is the names of what some proxies have.
type naming struct {
	clusters, hosts, tables, virtualHosts   map[string]bool
	listeners, connections, requests, ports map[string]bool
}

// naming returns the names of what the proxies of an audience have.
func (c *Compiled) naming(of audience) *naming {
	if known := c.known[of]; known != nil {
		return known
	}
	n := &naming{
		clusters: map[string]bool{}, hosts: map[string]bool{}, ports: map[string]bool{},
		tables: map[string]bool{}, virtualHosts: map[string]bool{}, listeners: map[string]bool{},
		connections: map[string]bool{}, requests: map[string]bool{},
	}
	seen := map[*resource.Resource]bool{} // classes share most
	for h := range c.has {
		if !of.has(h) {
			continue
		}
		for typ, set := range h.state.Sets() {
			for r := range set.All() {
				if !seen[r] {
					seen[r] = true
					n.note(resource.Type(typ), r)
				}
			}
		}
	}
	c.known[of] = n
	return n
}

func (n *naming) note(typ resource.Type, r *resource.Resource) {
	switch typ {
	case resource.Cluster:
		n.clusters[r.Name()] = true
		if i := strings.LastIndexByte(r.Name(), '|'); i >= 0 && i+1 < len(r.Name()) {
			n.hosts[r.Name()[i+1:]] = true
		}
	case resource.Route:
		n.tables[r.Name()] = true
	case resource.VirtualHost:
		table, _ := resource.TableOf(r.Name())
		n.virtualHosts[strings.TrimPrefix(r.Name(), table+"/")] = true
	case resource.Listener:
		n.listeners[r.Name()] = true
		n.noteListener(r)
	default: // patches match nothing else
	}
}

// noteListener notes the ports of a listener, and the filters of connections and of requests in it.
func (n *naming) noteListener(r *resource.Resource) {
	var l listenerv3.Listener
	if proto.Unmarshal(r.Body(), &l) != nil {
		return // it was encoded here: there is none like that
	}
	n.ports[strconv.Itoa(int(l.GetAddress().GetSocketAddress().GetPortValue()))] = true
	for _, chain := range l.GetFilterChains() {
		if port := chain.GetFilterChainMatch().GetDestinationPort().GetValue(); port != 0 {
			n.ports[strconv.Itoa(int(port))] = true
		}
		for _, f := range chain.GetFilters() {
			n.connections[f.GetName()] = true
			var manager hcmv3.HttpConnectionManager
			if f.GetTypedConfig().UnmarshalTo(&manager) != nil {
				continue // it is no connection manager
			}
			for _, h := range manager.GetHttpFilters() {
				n.requests[h.GetName()] = true
			}
		}
	}
}
