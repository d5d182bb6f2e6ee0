package debug

import (
	"net/http"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// connections is /debug/connections.
type connections struct {
	TotalClients int          `json:"totalClients"`
	Clients      []connection `json:"clients"`
}

// connection is one stream. The fields up to Watches are istiod's.
type connection struct {
	ConnectionID string              `json:"connectionId"`
	ConnectedAt  time.Time           `json:"connectedAt"`
	Address      string              `json:"address"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Metadata     *structpb.Struct    `json:"metadata,omitempty"`
	Locality     *locality           `json:"locality,omitempty"`
	Watches      map[string][]string `json:"watches"` // by type URL; of each the names that the proxy should have

	NodeID    string `json:"nodeId"`
	Identity  string `json:"identity"`
	Protocol  string `json:"protocol"`
	UserAgent string `json:"userAgent,omitempty"`
}

type locality struct {
	Region  string `json:"region,omitempty"`
	Zone    string `json:"zone,omitempty"`
	SubZone string `json:"subzone,omitempty"`
}

func (h handler) connections(w http.ResponseWriter, r *http.Request) {
	clients := h.Fleet.Clients()
	if r.URL.Query().Has("proxyID") {
		c, ok := h.askedProxy(w, r)
		if !ok {
			return
		}
		clients = []serve.Client{c}
	}
	out := connections{TotalClients: len(clients), Clients: []connection{}}
	for _, c := range clients {
		conn := connection{
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
			conn.Locality = &locality{Region: l.Region, Zone: l.Zone, SubZone: l.SubZone}
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
