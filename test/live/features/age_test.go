package features

import (
	"testing"
	"time"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestRequestsGoOnWhenConnectionsReachMaxAge: connections to the control plane reach their maximum
// age again and again. Requests go on, and changes arrive.
func TestRequestsGoOnWhenConnectionsReachMaxAge(t *testing.T) {
	mesh := func(servers int) string {
		return livemesh.File("mesh.yaml", livemesh.NewEcho("client", "v1"), livemesh.Service("client", "http:80:8080"),
			livemesh.NewEcho("server", "v1").Replicas(servers), livemesh.Service("server", "http:80:8080"))
	}
	m := livemesh.StartWith(t, livemesh.Options{ConnectionAge: time.Second}, mesh(1))
	load := m.Client("client-v1").Load("http://server.default/")
	seen := map[string]bool{}
	for round := range 4 { // the first connection, and three more
		m.Await("another connection", func() bool {
			c, connected := m.Connection("client-v1")
			another := connected && !seen[c.ConnectionID]
			seen[c.ConnectionID] = true
			return another
		})
		m.Apply(mesh(2 + round%2))
		load.Advance(10)
	}
	load.Stop()
}
