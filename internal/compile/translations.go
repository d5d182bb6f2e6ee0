package compile

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/authz"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/name"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
	"github.com/lateen-mesh/lateen/internal/translate/secret"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// translations are all kinds of translation, each with the resources that it made.
type translations struct {
	clusters     translation[cluster.OutboundInput]
	inbound      translation[cluster.InboundInput]
	passthrough  translation[cluster.PassthroughInput]
	blackHoles   translation[struct{}] // patched ones
	heads        translation[route.TableInput]
	vhosts       translation[vhostKey]
	fallbacks    translation[fallbackKey]
	proxies      translation[listener.HTTPInput]
	tcp          translation[listener.TCPInput]
	inbounds     translation[listener.InboundInput]
	virtualIn    translation[listener.VirtualInboundInput]
	virtualOut   translation[listener.VirtualOutboundInput]
	gateways     translation[listener.GatewayInput]
	certificates translation[secret.CertificateInput]
	authorities  translation[secret.AuthoritiesInput]
	filters      translation[authz.Input]
	added        translation[addedInput]
	addedVhosts  translation[addedHostKey]

	assignments *memo[assignmentKey]
	nameTables  *memo[name.Input]
}

// vhostKey is a virtual host of a route table.
type vhostKey struct {
	table, name string
	in          route.VirtualHostInput
}

// fallbackKey is the virtual host of a table for requests to unknown hosts.
type fallbackKey struct {
	table string
	in    route.FallbackInput
}

// assignmentKey is a ClusterLoadAssignment for callers at one place. near has the values of their
// place that prefer depends on.
type assignmentKey struct {
	cluster string
	list    *groupList
	prefer  endpoint.Preference
	near    model.Labels
}

func declareTranslations(e *emitter) (t translations) {
	t.declareClusters(e)
	t.declareVirtualHosts(e)
	t.declareListeners(e)
	t.declareAdditions(e)
	t.certificates = declare(e, "secret_certificate", func(in secret.CertificateInput) made {
		return made{name: in.Name, message: secret.Certificate(in)}
	})
	t.authorities = declare(e, "secret_authorities", func(in secret.AuthoritiesInput) made {
		return made{name: in.Name, message: secret.Authorities(in)}
	})
	t.filters = declare(e, "policies", func(in authz.Input) made {
		return made{name: pb.PolicyFilters, message: authz.Resource(pb.PolicyFilters, in)}
	})
	t.assignments = remember(e, "assignment", assemble)
	t.nameTables = remember(e, "name", func(in name.Input) *resource.Resource {
		return resource.New(string(in.Host), name.Table(in))
	})
	return t
}

func (t *translations) declareClusters(e *emitter) {
	t.clusters = declare(e, "cluster", func(in cluster.OutboundInput) made {
		m := cluster.Outbound(in)
		return made{
			name: m.GetName(), message: m, traits: resource.Traits{EDS: m.GetType() == clusterv3.Cluster_EDS},
		}
	})
	t.inbound = declare(e, "cluster_inbound", func(in cluster.InboundInput) made {
		m := cluster.Inbound(in)
		return made{name: m.GetName(), message: m, traits: withOwnAddresses()}
	})
	t.passthrough = declare(e, "cluster_passthrough", func(in cluster.PassthroughInput) made {
		m := cluster.Passthrough(in)
		return made{name: m.GetName(), message: m}
	})
	t.blackHoles = declare(e, "cluster_black_hole", func(struct{}) made {
		return made{name: cluster.BlackHoleName, message: cluster.BlackHole()}
	})
}

func (t *translations) declareVirtualHosts(e *emitter) {
	t.heads = declare(e, "route_table", func(in route.TableInput) made {
		return made{name: in.Name, message: route.Table(in)}
	})
	t.vhosts = declare(e, "virtualhost", func(k vhostKey) made {
		return virtualHost(k.table, k.name, route.VirtualHost(k.in), k.in.Domains)
	})
	anyDomain := model.NewInterner[string]().List([]string{"*"})
	t.fallbacks = declare(e, "fallback", func(k fallbackKey) made {
		return virtualHost(k.table, nameOfFallback(k.in), route.Fallback(k.in), anyDomain)
	})
}

// virtualHost is a virtual host of a table. One that cannot be served is closed. If it were left
// out, its requests would go where those for unknown hosts go.
func virtualHost(table, name string, m *routev3.VirtualHost, domains *model.List[string]) made {
	return made{name: name, message: m, table: table, closed: func() validatable { return route.Closed(domains) }}
}

func (t *translations) declareListeners(e *emitter) {
	t.proxies = declare(e, "listener_http", func(in listener.HTTPInput) made {
		return made{name: in.Name, message: listener.HTTP(in), traits: withOwnAddresses()}
	})
	t.tcp = declare(e, "listener_tcp", func(in listener.TCPInput) made {
		return made{name: in.Name, message: listener.TCP(in), traits: withOwnAddresses()}
	})
	t.inbounds = declare(e, "listener_inbound", func(in listener.InboundInput) made {
		return made{name: in.Name, message: listener.Inbound(in), traits: withOwnAddresses()}
	})
	t.virtualIn = declare(e, "listener_virtual_inbound", func(in listener.VirtualInboundInput) made {
		return made{name: listener.VirtualInboundName, message: listener.VirtualInbound(in)}
	})
	t.virtualOut = declare(e, "listener_virtual_outbound", func(in listener.VirtualOutboundInput) made {
		return made{name: listener.VirtualOutboundName, message: listener.VirtualOutbound(in)}
	})
	t.gateways = declare(e, "listener_gateway", func(in listener.GatewayInput) made {
		return made{name: in.Name, message: listener.Gateway(in), traits: withOwnAddresses()}
	})
}

// withOwnAddresses are the traits of a message with the proxy's own addresses in it.
func withOwnAddresses() resource.Traits { return resource.Traits{Placeholders: true} }

// assemble makes a ClusterLoadAssignment of shared endpoint sets.
func assemble(k assignmentKey) *resource.Resource {
	sites := make([]endpoint.Site, len(k.list.sites))
	for i, l := range k.list.sites {
		sites[i] = endpoint.Site{Locality: l.locality, Marks: l.marks, Weight: l.weight}
	}
	var list []resource.Group
	for i, share := range k.prefer.Spread(sites, k.near) {
		if share.LeftOut {
			continue
		}
		in := endpoint.GroupInput{Locality: sites[i].Locality, Priority: share.Priority, Weight: share.Weight}
		head, err := pb.Marshal(endpoint.Group(in))
		if err != nil {
			continue
		}
		list = append(list, resource.Group{Head: head, Members: k.list.sites[i].members})
	}
	head, err := pb.Marshal(endpoint.Assignment(endpoint.AssignmentInput{Cluster: k.cluster}))
	if err != nil {
		head = nil
	}
	return resource.NewAssignment(k.cluster, head, list)
}
