package envoymodel

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// clusterManager is Envoy's: what is active serves, what warms waits for its endpoints.
//
// While Envoy starts, CDS requests are not held back by warming; listeners are asked for when all
// clusters of the first response, and of those that come meanwhile, are warm.
type clusterManager struct {
	envoy           *Envoy
	active, warming map[string]*cluster
	answered        bool // there was a first response, taken or refused
	secondary       bool // clusters may wait for endpoints
	started         bool // all clusters of the start are warm
	held            bool // CDS is paused because a cluster warms
	// assignments are the endpoints that were accepted last, by name; a cluster whose fetch times
	// out takes them.
	assignments map[string]assignment
}

// assignment is what a cluster knows of its endpoints.
type assignment struct {
	body  string // empty: nothing came
	hosts []string
}

func newClusterManager(e *Envoy) clusterManager {
	return clusterManager{
		envoy: e, active: map[string]*cluster{}, warming: map[string]*cluster{}, assignments: map[string]assignment{},
	}
}

// cluster is one form of a cluster. It watches its endpoints itself.
type cluster struct {
	manager *clusterManager
	name    string
	version string
	body    string
	eds     bool
	service string // the name of its endpoints
	timeout time.Duration
	assignment
	head        *endpointv3.ClusterLoadAssignment // that names collections
	collections map[string]*collection            // by how the head names them

	watching bool
	warm     bool
	resolves bool // its hosts come from DNS, and have not come yet
	fetch    *timer
}

// update takes a response for clusters.
func (m *clusterManager) update(u update) string {
	m.envoy.mux.pause(Endpoints)
	m.envoy.mux.pause(Members)
	var refused refusals
	seen := map[string]bool{}
	for _, r := range u.resources {
		if seen[r.name] {
			refused.add(r.name, fmt.Sprintf("duplicate cluster %s found", r.name))
			continue
		}
		seen[r.name] = true
		c, why := m.build(r)
		if why != "" {
			refused.add(r.name, why)
			continue
		}
		m.put(c)
	}
	for _, name := range gone(u, m.active, m.warming) {
		m.remove(name)
	}
	m.answered = true
	m.progress()
	m.envoy.mux.resume(Endpoints)
	m.envoy.mux.resume(Members)
	return refused.message(clustersRefused, ", ")
}

func (m *clusterManager) failed() {
	m.answered = true
	m.progress()
}

// gone are the names that a response takes away: those that it removes, and of a full one all that
// it does not name.
func gone[T any](u update, held ...map[string]T) []string {
	if !u.full {
		return u.removed
	}
	var out []string
	for _, of := range held {
		for name := range of {
			named := slices.ContainsFunc(u.resources, func(r resource) bool { return r.name == name })
			if !named && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// build makes a cluster of its message, or says why Envoy does not.
func (m *clusterManager) build(r resource) (*cluster, string) {
	p := r.message.(*clusterv3.Cluster)
	if s := p.GetTransportSocket(); s != nil && s.GetTypedConfig() == nil {
		return nil, fmt.Sprintf("Didn't find a registered implementation for '%s' with type URL: ''", s.GetName())
	}
	c := &cluster{manager: m, name: r.name, version: r.version, body: r.body, service: r.name}
	switch p.GetType() {
	case clusterv3.Cluster_EDS:
		c.eds = true
		if s := p.GetEdsClusterConfig().GetServiceName(); s != "" {
			c.service = s
		}
		c.timeout = fetchTimeout(p.GetEdsClusterConfig().GetEdsConfig())
	case clusterv3.Cluster_STRICT_DNS, clusterv3.Cluster_LOGICAL_DNS:
		c.resolves = m.envoy.opt.SlowDNS
		c.hosts = ports(p.GetLoadAssignment())
	default:
		c.hosts = ports(p.GetLoadAssignment())
	}
	return c, ""
}

// fetchTimeout is that of a source, 15 s unless it says else.
func fetchTimeout(s *corev3.ConfigSource) time.Duration {
	if t := s.GetInitialFetchTimeout(); t != nil {
		return t.AsDuration()
	}
	return 15 * time.Second
}

// put adds a cluster or makes it replace another, unless it is the same as the newest.
func (m *clusterManager) put(c *cluster) {
	old := m.warming[c.name]
	newest := old
	if newest == nil {
		newest = m.active[c.name]
	}
	if newest != nil && newest.body == c.body {
		return
	}
	m.warming[c.name] = c
	if m.secondary || !c.eds {
		c.initialize()
	}
	if old != nil {
		old.close()
	}
	m.hold()
}

func (m *clusterManager) remove(name string) {
	for _, clusters := range []map[string]*cluster{m.active, m.warming} {
		if c := clusters[name]; c != nil {
			delete(clusters, name)
			c.close()
		}
	}
	m.hold()
}

// hold pauses CDS requests as long as a cluster warms.
func (m *clusterManager) hold() {
	switch warms := len(m.warming) > 0; {
	case m.started && warms && !m.held:
		m.held = true
		m.envoy.mux.pause(Clusters)
	case m.held && !warms:
		m.held = false
		m.envoy.mux.resume(Clusters)
	}
}

// progress goes on with the start: first the clusters that need no other, then those whose
// endpoints come over xDS, then listeners.
func (m *clusterManager) progress() {
	if m.started || !m.answered {
		return
	}
	if !m.secondary {
		for _, c := range m.warming {
			if !c.eds {
				return
			}
		}
		m.secondary = true
		for _, name := range sortedKeys(m.warming) {
			m.warming[name].initialize()
		}
	}
	if len(m.warming) == 0 && !m.started {
		m.started = true
		m.envoy.listeners.start()
	}
}

func (m *clusterManager) resolve() {
	for _, name := range sortedKeys(m.warming) {
		if c := m.warming[name]; c != nil && c.resolves {
			c.resolves = false
			c.initialize()
		}
	}
}

// initialize begins the cluster's life: it is warm at once, or waits.
func (c *cluster) initialize() {
	switch {
	case c.resolves || c.watching || c.warm:
	case c.eds:
		c.watching = true
		if c.timeout > 0 {
			c.fetch = c.manager.envoy.after(c.timeout, c.timedOut)
		}
		c.manager.envoy.mux.watch(Endpoints, c.service, c)
	default:
		c.ready()
	}
}

// ready ends warming.
func (c *cluster) ready() {
	c.stopFetch()
	if c.warm {
		return
	}
	c.warm = true
	m := c.manager
	old := m.active[c.name]
	m.active[c.name] = c
	delete(m.warming, c.name)
	if old != nil {
		old.close()
	}
	m.hold()
	m.progress()
}

func (c *cluster) close() {
	c.stopFetch()
	if c.watching {
		c.watching = false
		c.manager.envoy.mux.unwatch(Endpoints, c)
	}
	for _, key := range sortedKeys(c.collections) {
		c.collections[key].close()
		delete(c.collections, key)
	}
}

func (c *cluster) stopFetch() {
	if c.fetch != nil {
		c.manager.envoy.stop(c.fetch)
		c.fetch = nil
	}
}

// update takes a response for the cluster's endpoints. A removal leaves its hosts, but ends its
// warming.
func (c *cluster) update(u update) string {
	if !c.watching {
		return ""
	}
	if len(u.resources) > 0 {
		c.manager.envoy.mux.pause(Members) // what a new head means for collections is said at once
		defer c.manager.envoy.mux.resume(Members)
		r := u.resources[0]
		a := r.message.(*endpointv3.ClusterLoadAssignment)
		c.stopFetch()
		if c.head = nil; c.follow(a) {
			c.head = a
			c.gather()
			return ""
		}
		if why := wrongAddress(a); why != "" {
			return why
		}
		c.assignment = assignment{body: r.body, hosts: ports(a)}
		c.manager.assignments[c.service] = c.assignment
	}
	c.ready()
	return ""
}

// failed ends warming, without endpoints.
func (c *cluster) failed() {
	if c.watching {
		c.ready()
	}
}

// timedOut ends warming with the endpoints that came last under the name.
func (c *cluster) timedOut() {
	c.assignment = c.manager.assignments[c.service]
	c.ready()
}

func wrongAddress(a *endpointv3.ClusterLoadAssignment) string {
	for _, g := range a.GetEndpoints() {
		for _, ep := range g.GetLbEndpoints() {
			address := ep.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
			if _, err := netip.ParseAddr(address); err != nil {
				return "malformed IP address: " + address +
					". Consider setting resolver_name or setting cluster type to 'STRICT_DNS' or 'LOGICAL_DNS'"
			}
		}
	}
	return ""
}

func ports(a *endpointv3.ClusterLoadAssignment) []string {
	out := []string{}
	for _, g := range a.GetEndpoints() {
		for _, ep := range g.GetLbEndpoints() {
			out = append(out, strconv.Itoa(int(ep.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue())))
		}
	}
	slices.Sort(out)
	return slices.Compact(out) // an address is one host
}

func (m *clusterManager) summarize(s *Summary) {
	for name, c := range m.active {
		s.Clusters[name] = c.version
		s.Hosts[name] = append([]string{}, c.hosts...)
	}
	for name, c := range m.warming {
		s.WarmingClusters[name] = c.version
	}
}
