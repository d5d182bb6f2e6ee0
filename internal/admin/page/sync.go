package page

import "time"

// SyncState is how far a proxy is with one type of resources.
type SyncState string

const (
	// NotSent: the proxy has not asked for the type, or nothing has been sent yet.
	NotSent SyncState = "NOT_SENT"
	// Synced: the proxy has accepted the latest response.
	Synced SyncState = "SYNCED"
	// Stale: the latest response has no ACK yet.
	Stale SyncState = "STALE"
	// Nack: the proxy refused the latest response, or part of it is kept from it because of a
	// refusal.
	Nack SyncState = "NACK"
)

// MutualTLS is how a proxy speaks mutual TLS of the mesh.
type MutualTLS string

const (
	// NoMutualTLS: the proxy has no certificate of the mesh.
	NoMutualTLS MutualTLS = "NONE"
	// StrictMutualTLS: it takes nothing else. PermissiveMutualTLS: it takes plaintext too.
	// DisabledMutualTLS: a PeerAuthentication turns it off. MixedMutualTLS: its ports differ.
	StrictMutualTLS     MutualTLS = "STRICT"
	PermissiveMutualTLS MutualTLS = "PERMISSIVE"
	DisabledMutualTLS   MutualTLS = "DISABLE"
	MixedMutualTLS      MutualTLS = "MIXED"
	// CallsInMutualTLS: a gateway, which takes what its Gateways say and calls in mutual TLS.
	CallsInMutualTLS MutualTLS = "CALLS"
)

// SyncStatus is one proxy in /debug/syncz. The fields up to Resources are istiod's.
type SyncStatus struct {
	ClusterID     string                `json:"cluster_id,omitempty"`
	ProxyID       string                `json:"proxy,omitempty"`
	ProxyType     string                `json:"proxy_type,omitempty"`
	ProxyVersion  string                `json:"proxy_version,omitempty"`
	IstioVersion  string                `json:"istio_version,omitempty"`
	ClusterSent   string                `json:"cluster_sent,omitempty"`
	ClusterAcked  string                `json:"cluster_acked,omitempty"`
	ListenerSent  string                `json:"listener_sent,omitempty"`
	ListenerAcked string                `json:"listener_acked,omitempty"`
	RouteSent     string                `json:"route_sent,omitempty"`
	RouteAcked    string                `json:"route_acked,omitempty"`
	EndpointSent  string                `json:"endpoint_sent,omitempty"`
	EndpointAcked string                `json:"endpoint_acked,omitempty"`
	Resources     map[string]TypeStatus `json:"resources"` // by type URL

	ConnectionID string    `json:"connection_id"`
	Namespace    string    `json:"namespace"`
	Protocol     string    `json:"protocol"` // "delta" or "sotw"
	ConnectedAt  time.Time `json:"connected_at"`
	// MutualTLS is how the proxy speaks mutual TLS.
	MutualTLS MutualTLS `json:"mutual_tls,omitempty"`
	// Pending is set if a newer state waits to be pushed to the proxy.
	Pending bool `json:"pending,omitempty"`
	// ConfigBytes is the size of all resources that the proxy has.
	ConfigBytes int `json:"config_bytes"`
}

// TypeStatus is one type of one proxy in /debug/syncz. The fields up to LastError are istiod's.
type TypeStatus struct {
	Sent      string     `json:"sent,omitempty"`
	Acked     string     `json:"acked,omitempty"`
	SentTime  *time.Time `json:"sentTime,omitempty"`
	LastError string     `json:"lastError,omitempty"` // the proxy's own words

	Type        string    `json:"type"` // "cds", "eds", …
	State       SyncState `json:"state"`
	Resources   int       `json:"resources"`
	Bytes       int       `json:"bytes"`
	Generation  uint64    `json:"generation"`
	Quarantined []string  `json:"quarantined,omitempty"`
	Withheld    []string  `json:"withheld,omitempty"`
}
