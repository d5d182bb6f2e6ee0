package booklab

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/leanproxy"
)

// istiodBytes is what istiod sends for the ten changes as is, to all proxies (in megabytes, 23.0),
// and share is how much of that it may be here.
const (
	istiodBytes = 23_000_000
	share       = 0.02
)

// check compares what was sent with what had changed: nothing else may be in it, and everything
// once.
func (l *lab) check(t *testing.T, before view, r result) {
	for _, p := range l.sidecars {
		l.checkSidecar(t, l.since(before, p), r.generations)
	}
	for _, sent := range l.since(before, l.gateway) {
		require.NotEqual(t, leanproxy.Listener, sent.Type, "the gateway's port was open before: %v", sent.Names)
	}
	limit := int64(share * istiodBytes * float64(l.changes) / 10)
	require.Less(t, r.bytes, limit, "bytes")
}

func (l *lab) checkSidecar(t *testing.T, responses []leanproxy.Response, generations int) {
	sent := map[leanproxy.Type][]string{}
	for _, r := range responses {
		require.Empty(t, r.Removed)
		sent[r.Type] = append(sent[r.Type], r.Names...)
	}
	if l.setting.scoped {
		require.Empty(t, sent, "a Sidecar keeps the changes from it")
		return
	}
	var clusters, hosts []string
	for i := range l.changes {
		clusters, hosts = append(clusters, clusterOf(l.name(i))), append(hosts, "80/"+inside(l.name(i))+":80")
	}
	slices.Sort(clusters)
	slices.Sort(sent[leanproxy.Cluster])
	require.Equal(t, clusters, sent[leanproxy.Cluster], "each new cluster once")
	require.Subset(t, clusters, sent[leanproxy.Endpoint], "endpoints of new clusters alone")
	require.Empty(t, sent[leanproxy.Route])
	require.Subset(t, hosts, sent[leanproxy.VirtualHost], "virtual hosts of what is new alone")
	require.LessOrEqual(t, len(sent[leanproxy.VirtualHost]), generations, "one for each generation")
	require.Empty(t, sent[leanproxy.Listener])
}
