package admin

import (
	"net/http"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

func (h handler) connections(w http.ResponseWriter, r *http.Request) {
	clients := h.Fleet.Clients()
	if r.URL.Query().Has("proxyID") {
		c, ok := h.askedProxy(w, r)
		if !ok {
			return
		}
		clients = []serve.Client{c}
	}
	out := page.Connections{TotalClients: len(clients), Clients: []page.Connection{}}
	for _, c := range clients {
		conn := page.Connection{
			ConnectionID: c.ConnectionID,
			ConnectedAt:  c.ConnectedAt,
			Address:      c.Address,
			Labels:       c.Node.Metadata.Labels,
			Metadata:     c.Node.Metadata.Raw(),
			Watches:      map[string][]string{},
			NodeID:       c.Node.ID,
			Identity:     c.Identity.String(),
			Protocol:     protocolName(c.Protocol),
			UserAgent:    c.Node.UserAgent,
		}
		if l := c.Node.Locality; l.Region != "" {
			conn.Locality = &page.Locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
		}
		for t, status := range c.Types {
			if status.Subscribed {
				conn.Watches[resource.Type(t).URL()] = c.State.Set(resource.Type(t)).Names()
			}
		}
		out.Clients = append(out.Clients, conn)
	}
	writeJSON(w, out)
}
