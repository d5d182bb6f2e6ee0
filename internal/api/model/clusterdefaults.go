package model

import "cmp"

// ClusterDefaults is what the mesh configuration says of all clusters. It is canonical, and nil
// where it says nothing.
type ClusterDefaults struct {
	// Pool and Outlier hold where no DestinationRule says anything of connections, or of endpoints
	// that fail (defaultTrafficPolicy). A rule that does says all of it.
	Pool    *ConnectionPool
	Outlier *OutlierDetection
	// Keepalive is TCP keep-alive of all connections (tcpKeepalive). What a pool says of it
	// replaces it value by value.
	Keepalive *Keepalive
}

// Under returns a policy with the defaults where it says nothing.
func (d *ClusterDefaults) Under(p TrafficPolicy) TrafficPolicy {
	if d == nil {
		return p
	}
	if p.Pool == nil {
		p.Pool = d.Pool
	}
	if p.Outlier == nil {
		p.Outlier = d.Outlier
	}
	return p
}

// PoolOf returns the mesh's pool in place of none; nil if there is none either.
func (d *ClusterDefaults) PoolOf(own *ConnectionPool) *ConnectionPool {
	if own != nil || d == nil {
		return own
	}
	return d.Pool
}

// KeepaliveOf returns the keep-alive of connections of a pool, which may be nil; nil for none.
func (d *ClusterDefaults) KeepaliveOf(p *ConnectionPool) *Keepalive {
	var own, mesh *Keepalive
	if p != nil {
		own = p.Keepalive
	}
	if d != nil {
		mesh = d.Keepalive
	}
	if own == nil || mesh == nil {
		return cmp.Or(own, mesh)
	}
	return &Keepalive{
		Probes:   cmp.Or(own.Probes, mesh.Probes),
		Time:     cmp.Or(own.Time, mesh.Time),
		Interval: cmp.Or(own.Interval, mesh.Interval),
	}
}
