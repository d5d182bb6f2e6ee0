package local

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/source/dir"
)

// TestBookinfoRuns starts the example as a user would, with Envoys that do nothing but answer.
func TestBookinfoRuns(t *testing.T) {
	m := runSource(t, Options{ListenWait: time.Millisecond}, dir.New(dir.Options{Path: "../../examples/bookinfo"}))
	s := m.await(t, (*Snapshot).Ready)
	var workloads []string
	for _, p := range s.Pods {
		workloads = append(workloads, p.Workload)
		require.Equal(t, p.Workload == "ingressgateway", p.Gateway)
	}
	require.Equal(t, "details-v1 ingressgateway productpage-v1 ratings-v1 reviews-v1 reviews-v2 reviews-v3",
		strings.Join(workloads, " "))
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	for origin, problems := range m.world.reports {
		for _, p := range problems {
			require.Contains(t, p.Message, "cannot be opened on this machine", origin) // port 8080 may be taken
		}
	}
}
