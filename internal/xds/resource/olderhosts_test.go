package resource_test

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// TestWithOlderHostsIsShared: proxies that refuse the same cluster get the same mixture of tables,
// encoded once.
func TestWithOlderHostsIsShared(t *testing.T) {
	store, d := resource.NewStore(), resource.NewDiffer(4)
	vhost := func(name, domain string, retries uint32) *resource.Resource {
		body, err := proto.Marshal(&routev3.VirtualHost{
			Domains:                    []string{domain},
			IncludeRequestAttemptCount: retries > 1,
		})
		require.NoError(t, err)
		return resource.New(name, body)
	}
	older := resource.NewRouteTable("r", nil,
		store.Build(vhost("x", "x", 1), vhost("y", "y", 1), vhost("gone", "g", 1)))
	newer := resource.NewRouteTable("r", []byte("head"),
		store.Build(vhost("x", "x", 2), vhost("y", "moved", 2), vhost("z", "z", 1)))
	all := func(_, _ *resource.Resource) bool { return true }

	mixed := d.WithOlderHosts(newer, older, all)
	require.Same(t, mixed, d.WithOlderHosts(newer, older, all))
	require.Equal(t, older.VirtualHosts().Get("x"), mixed.VirtualHosts().Get("x"))
	require.Equal(t, newer.VirtualHosts().Get("y"), mixed.VirtualHosts().Get("y"), "its domains are others")
	require.Equal(t, []string{"x", "y", "z"}, mixed.VirtualHosts().Names())
	require.Equal(t, "head", string(mixed.Body()[:4]))
	require.NotEqual(t, newer.Version(), mixed.Version())

	require.Same(t, newer, d.WithOlderHosts(newer, older, func(_, _ *resource.Resource) bool { return false }))
	require.Same(t, newer, d.WithOlderHosts(newer, resource.New("r", nil), all), "what is no table has nothing to keep")
}
