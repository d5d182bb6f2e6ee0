package envoymodel

import (
	"slices"
	"strconv"
	"strings"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// collectionPrefix is what the names of endpoint collections and of their members begin with; the
// notation leaves it out.
const collectionPrefix = "xdstp:///envoy.config.endpoint.v3.LbEndpoint/"

// anyMember is the last part of the name under which a collection is asked for.
const anyMember = "*"

// collection is a cluster's watch of one endpoint collection. It lives as long as the cluster's
// assignment names it with the same source.
type collection struct {
	of      *cluster
	config  string // encoded
	members map[string]*endpointv3.LbEndpoint
	tried   bool // a first answer came, were it a refusal or the end of the patience
	fetch   *timer
}

// follow brings the watches of collections to what an assignment names, and tells whether it names
// any.
func (c *cluster) follow(a *endpointv3.ClusterLoadAssignment) bool {
	configs := map[string]*endpointv3.LedsClusterLocalityConfig{}
	var order []string
	for _, g := range a.GetEndpoints() {
		if config := g.GetLedsClusterLocalityConfig(); config != nil {
			key := encoded(config)
			configs[key] = config
			order = append(order, key)
		}
	}
	for _, key := range sortedKeys(c.collections) {
		if configs[key] == nil {
			c.collections[key].close()
			delete(c.collections, key)
		}
	}
	for _, key := range order {
		if c.collections[key] == nil {
			c.watchCollection(key, configs[key])
		}
	}
	return len(order) > 0
}

func (c *cluster) watchCollection(key string, config *endpointv3.LedsClusterLocalityConfig) {
	x := &collection{of: c, config: key, members: map[string]*endpointv3.LbEndpoint{}}
	if c.collections == nil {
		c.collections = map[string]*collection{}
	}
	c.collections[key] = x
	if timeout := fetchTimeout(config.GetLedsConfig()); timeout > 0 {
		x.fetch = c.manager.envoy.after(timeout, x.failed)
	}
	c.manager.envoy.mux.watch(Members, config.GetLedsCollectionName(), x)
}

func (x *collection) close() {
	x.fetch = x.of.manager.envoy.cancel(x.fetch)
	x.of.manager.envoy.mux.unwatch(Members, x)
}

// update takes members. The first answer counts, whatever is in it.
func (x *collection) update(u update) string {
	for _, r := range u.resources {
		x.members[r.wire] = r.message.(*endpointv3.LbEndpoint)
	}
	for _, name := range u.removed {
		delete(x.members, name)
	}
	x.failed()
	return ""
}

// failed ends the wait, with the members that there are.
func (x *collection) failed() {
	if x.of.collections[x.config] != x {
		return // it was given up meanwhile
	}
	x.fetch = x.of.manager.envoy.cancel(x.fetch)
	x.tried = true
	x.of.gather()
}

// gather makes the members of all collections the cluster's endpoints, if each has had an answer.
func (c *cluster) gather() {
	for _, x := range c.collections {
		if !x.tried {
			return
		}
	}
	flat := proto.CloneOf(c.head)
	for _, g := range flat.GetEndpoints() {
		if config := g.GetLedsClusterLocalityConfig(); config != nil {
			g.LbConfig = nil
			x := c.collections[encoded(config)]
			for _, name := range sortedKeys(x.members) {
				g.LbEndpoints = append(g.LbEndpoints, x.members[name])
			}
		}
	}
	c.assignment = assignment{body: Flat(flat), hosts: ports(flat)}
	c.ready()
}

// Flat is an assignment with its endpoints in the order of their bytes, encoded, to compare those
// of collections with those of a list.
func Flat(a *endpointv3.ClusterLoadAssignment) string {
	a = proto.CloneOf(a)
	for _, g := range a.GetEndpoints() {
		slices.SortFunc(g.LbEndpoints, func(a, b *endpointv3.LbEndpoint) int {
			return strings.Compare(encoded(a), encoded(b))
		})
	}
	return encoded(a)
}

func encoded(m proto.Message) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // what was decoded can be encoded
	}
	return string(b)
}

// inCollections is the assignment whose localities have their endpoints in collections, the names
// of which are the resource's targets.
func (r Resource) inCollections() *endpointv3.ClusterLoadAssignment {
	a := &endpointv3.ClusterLoadAssignment{ClusterName: r.Name}
	for i, name := range r.Targets {
		a.Endpoints = append(a.Endpoints, &endpointv3.LocalityLbEndpoints{
			Locality: locality("z" + strconv.Itoa(i)),
			LbConfig: &endpointv3.LocalityLbEndpoints_LedsClusterLocalityConfig{
				LedsClusterLocalityConfig: &endpointv3.LedsClusterLocalityConfig{
					LedsConfig: r.source(), LedsCollectionName: collectionPrefix + name + "/" + anyMember,
				},
			},
		})
	}
	return a
}

// member is one endpoint, on the port that the notation says.
func (r Resource) member() *endpointv3.LbEndpoint {
	port := 1
	if len(r.hosts) > 0 {
		port = r.hosts[0]
	}
	m := endpoint("127.0.0.1", port)
	if r.has(flagInvalid) {
		m.LoadBalancingWeight = wrapperspb.UInt32(0)
	}
	return m
}
