package serve

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
)

// istioBuild returns a node as Istio's build of Envoy sends it, among extensions that every Envoy
// has.
func istioBuild(minor uint32) *corev3.Node {
	n := envoyOf(reviewsID, 1, minor)
	n.Extensions = []*corev3.Extension{
		{Name: "envoy.filters.http.router", Category: "envoy.filters.http"},
		{Name: "envoy.filters.network.tcp_proxy", Category: "envoy.filters.network"},
	}
	for category, names := range istioFilters() {
		for _, name := range names {
			n.Extensions = append(n.Extensions, &corev3.Extension{Name: name, Category: category})
		}
	}
	return n
}

// TestIstiosFiltersAreForEnvoysThatHaveAllOfThem: whatever a node says of its version, it takes
// what it was built with.
func TestIstiosFiltersAreForEnvoysThatHaveAllOfThem(t *testing.T) {
	takes := func(n *corev3.Node) bool {
		node, err := ParseNode(n)
		require.NoError(t, err)
		return node.IstioFilters
	}
	require.True(t, takes(istioBuild(38)))
	require.True(t, takes(istioBuild(34)))
	require.False(t, takes(istioBuild(33)), "no %CEL()% in its format strings")
	require.False(t, takes(nodeOf(reviewsID)), "stock Envoy")
	for i := range istioBuild(38).Extensions {
		if i < 2 {
			continue
		}
		without, disabled, elsewhere := istioBuild(38), istioBuild(38), istioBuild(38)
		name := without.Extensions[i].Name
		without.Extensions = append(without.Extensions[:i], without.Extensions[i+1:]...)
		disabled.Extensions[i].Disabled = true
		elsewhere.Extensions[i].Category = "envoy.access_loggers"
		require.False(t, takes(without), "without %s", name)
		require.False(t, takes(disabled), "%s is disabled", name)
		require.False(t, takes(elsewhere), "%s is something else", name)
	}
}
