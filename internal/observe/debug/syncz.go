package debug

import (
	"net/http"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

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

func (h handler) syncz(w http.ResponseWriter, r *http.Request) {
	namespace := r.URL.Query().Get("namespace")
	out := []SyncStatus{}
	for _, c := range h.Fleet.Clients() {
		if namespace == "" || namespace == c.Node.Namespace {
			s := syncStatus(c)
			if h.MutualTLS != nil {
				s.MutualTLS = h.MutualTLS(c.Node)
			}
			out = append(out, s)
		}
	}
	writeJSON(w, out)
}

func syncStatus(c serve.Client) SyncStatus {
	meta := &c.Node.Metadata
	s := SyncStatus{
		ClusterID:     meta.ClusterID,
		ProxyID:       c.Node.Name,
		ProxyType:     string(c.Node.Type),
		ProxyVersion:  meta.IstioVersion,
		IstioVersion:  meta.IstioVersion,
		ClusterSent:   c.Types[resource.Cluster].Sent,
		ClusterAcked:  c.Types[resource.Cluster].Acked,
		ListenerSent:  c.Types[resource.Listener].Sent,
		ListenerAcked: c.Types[resource.Listener].Acked,
		RouteSent:     c.Types[resource.Route].Sent,
		RouteAcked:    c.Types[resource.Route].Acked,
		EndpointSent:  c.Types[resource.Endpoint].Sent,
		EndpointAcked: c.Types[resource.Endpoint].Acked,
		Resources:     map[string]TypeStatus{},

		ConnectionID: c.ConnectionID,
		Namespace:    c.Node.Namespace,
		Protocol:     protocolName(c.Protocol),
		ConnectedAt:  c.ConnectedAt,
		Pending:      c.Behind,
	}
	for t, status := range c.Types {
		if status.Subscribed || status.Sent != "" {
			s.Resources[resource.Type(t).URL()] = typeStatus(resource.Type(t), status)
			s.ConfigBytes += status.Bytes
		}
	}
	return s
}

func protocolName(p session.Protocol) string {
	if p == session.StateOfTheWorld {
		return "sotw"
	}
	return "delta"
}

func typeStatus(t resource.Type, s session.TypeStatus) TypeStatus {
	out := TypeStatus{
		Sent: s.Sent, Acked: s.Acked, LastError: s.Nack,
		Type: t.String(), State: stateOf(s), Resources: s.Resources, Bytes: s.Bytes, Generation: s.Generation,
		Quarantined: s.Quarantined, Withheld: s.Withheld,
	}
	if !s.SentAt.IsZero() {
		out.SentTime = &s.SentAt
	}
	return out
}

func stateOf(s session.TypeStatus) SyncState {
	switch {
	case s.Nack != "" || len(s.Quarantined) > 0:
		return Nack
	case s.Sent == "" && (!s.Subscribed || !s.Settled): // otherwise it has all, and said so when it connected
		return NotSent
	case !s.Settled, len(s.Withheld) > 0:
		return Stale
	default:
		return Synced
	}
}
