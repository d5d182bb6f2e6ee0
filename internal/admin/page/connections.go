package page

import (
	"time"

	"google.golang.org/protobuf/types/known/structpb"
)

// Connections is /debug/connections.
type Connections struct {
	TotalClients int          `json:"totalClients"`
	Clients      []Connection `json:"clients"`
}

// Connection is one stream. The fields up to Watches are istiod's.
type Connection struct {
	ConnectionID string              `json:"connectionId"`
	ConnectedAt  time.Time           `json:"connectedAt"`
	Address      string              `json:"address"`
	Labels       map[string]string   `json:"labels,omitempty"`
	Metadata     *structpb.Struct    `json:"metadata,omitempty"`
	Locality     *Locality           `json:"locality,omitempty"`
	Watches      map[string][]string `json:"watches"` // by type URL; of each the names that the proxy should have

	NodeID    string `json:"nodeId"`
	Identity  string `json:"identity"`
	Protocol  string `json:"protocol"`
	UserAgent string `json:"userAgent,omitempty"`
}

// Locality is where a proxy runs.
type Locality struct {
	Region  string `json:"region,omitempty"`
	Zone    string `json:"zone,omitempty"`
	SubZone string `json:"subzone,omitempty"`
}
