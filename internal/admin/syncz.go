package admin

import (
	"net/http"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

func (h handler) syncz(w http.ResponseWriter, r *http.Request) {
	namespace := r.URL.Query().Get("namespace")
	out := []page.SyncStatus{}
	for _, c := range h.Fleet.Clients() {
		if namespace == "" || namespace == c.Node.Namespace {
			s := syncStatus(c)
			s.MutualTLS = h.Mesh.mutualTLS(c.Node)
			out = append(out, s)
		}
	}
	writeJSON(w, out)
}

func syncStatus(c serve.Client) page.SyncStatus {
	meta := &c.Node.Metadata
	s := page.SyncStatus{
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
		Resources:     map[string]page.TypeStatus{},

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

func typeStatus(t resource.Type, s session.TypeStatus) page.TypeStatus {
	out := page.TypeStatus{
		Sent: s.Sent, Acked: s.Acked, LastError: s.Nack,
		Type: t.String(), State: stateOf(s), Resources: s.Resources, Bytes: s.Bytes, Generation: s.Generation,
		Quarantined: s.Quarantined, Withheld: s.Withheld,
	}
	if !s.SentAt.IsZero() {
		out.SentTime = &s.SentAt
	}
	return out
}

func stateOf(s session.TypeStatus) page.SyncState {
	switch {
	case s.Nack != "" || len(s.Quarantined) > 0:
		return page.Nack
	case s.Sent == "" && (!s.Subscribed || !s.Settled): // otherwise it has all, and said so when it connected
		return page.NotSent
	case !s.Settled, len(s.Withheld) > 0:
		return page.Stale
	default:
		return page.Synced
	}
}
