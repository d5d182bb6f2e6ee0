package session

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// A new service is a cluster, its endpoints and a virtual host. The virtual host would wait for the ACK of the cluster, lest it replace
// something that works by a cluster that warms. But one that is new replaces nothing, and where the endpoints are in the same
// burst the cluster is warm when they have been read, before what is behind them (1.4). So it goes in that burst, too: a quarter less CPU
// for a new service, and a round trip less until the service can be reached.

// pushAhead sends the virtual hosts that are due before the clusters' ACK, if nothing else is due, and all are such.
func (e *emission) pushAhead() {
	s := e.session
	c := &s.channels[resource.VirtualHost]
	if s.still.has(resource.VirtualHost) || s.opened.IsZero() || !c.started || c.owed || c.trouble != none || s.short() {
		return
	}
	for _, t := range []resource.Type{resource.Cluster, resource.Listener, resource.Route} {
		if due, _ := s.outlook(t); due {
			return
		}
	}
	change := s.opt.Differ.Diff(c.typ, c.held.base, c.set)
	if len(change.Removed) == 0 && !slices.ContainsFunc(change.Upserts, func(r *resource.Resource) bool { return change.From.Get(r.Name()) != nil || !s.reaches(r) }) {
		e.push(c.typ, nil)
	}
}

// reaches tells whether the clusters of a virtual host are warm when the client reads it.
func (s *Session) reaches(host *resource.Resource) bool {
	for name := range host.Refs().Clusters.All() {
		if !s.warm(name) {
			return false
		}
	}
	return true
}

// warm tells that the client has accepted a cluster, or that it is new to it and was sent with all of its endpoints, and needs nothing
// else: a collection's members and secrets must be asked for.
func (s *Session) warm(cluster string) bool {
	r := s.channels[resource.Cluster].set.Get(cluster)
	if r == nil {
		return false
	}
	if !slices.ContainsFunc(s.channels[resource.Cluster].sent, func(in *sent) bool { return find(in.upserts, cluster) != nil }) {
		return true
	}
	endpoints := s.channels[resource.Endpoint].offering(cluster)
	return r.Refs().Secrets.Len() == 0 && endpoints != nil && !endpoints.collected
}
