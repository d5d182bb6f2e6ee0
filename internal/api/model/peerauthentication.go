package model

// PeerAuthentication says whether its workloads accept calls in plaintext and in mutual TLS.
type PeerAuthentication struct {
	Meta
	// Selector is empty for all workloads of the namespace, or of the mesh in the root namespace.
	Selector Labels
	Mode     MTLSMode
	// Ports override Mode, sorted by the port of the workload.
	Ports []PortMTLS
}

// PortMTLS is the mode of one port of a workload.
type PortMTLS struct {
	Port uint16
	Mode MTLSMode
}

// MTLSMode says which calls a PeerAuthentication accepts.
type MTLSMode uint8

const (
	// MTLSUnset inherits the mode of the workload, the namespace or the mesh.
	MTLSUnset MTLSMode = iota
	// MTLSDisable does not end TLS of the mesh, and accepts all calls.
	MTLSDisable
	// MTLSPermissive accepts all calls, and ends TLS of the mesh.
	MTLSPermissive
	// MTLSStrict refuses calls that are not in mutual TLS of the mesh.
	MTLSStrict
)
