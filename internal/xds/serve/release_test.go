package serve

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
)

// Lists in pieces are for Envoys that are new enough, unless that is turned off; a limit on the
// size of responses is for what is no Envoy.
func TestVHDSAndLEDSAreForNewEnvoys(t *testing.T) {
	for _, c := range []struct {
		what        string
		node        *corev3.Node
		options     Options
		hosts       bool
		collections int
		limit       int
	}{
		{what: "the oldest that takes " +
			"them", node: envoyOf(reviewsID, 1, 38), hosts: true, collections: collectionsFrom},
		{what: "a newer one", node: envoyOf(reviewsID, 2, 0), hosts: true, collections: collectionsFrom},
		{what: "an older one", node: envoyOf(reviewsID, 1, 37)},
		{what: "one that does not say", node: &corev3.Node{Id: reviewsID, UserAgentName: "envoy"}},
		{what: "another client", node: &corev3.Node{Id: reviewsID, UserAgentName: "grpc-go"}, limit: maxResponse},
		{
			what: "without VHDS", node: nodeOf(reviewsID), options: Options{WholeRoutes: true},
			collections: collectionsFrom,
		},
		{what: "without LEDS", node: nodeOf(reviewsID), options: Options{WholeEndpoints: true}, hosts: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			node, err := ParseNode(c.node)
			require.NoError(t, err)
			c.options.Now = time.Now
			o := (&stream{server: &Server{options: c.options}, node: node}).sessionOptions()
			require.Equal(t, []any{c.hosts, c.collections, c.limit}, []any{o.VirtualHosts, o.Collections, o.MaxBytes})
		})
	}
	require.Equal(t, "1.37", releaseOf(envoyOf(reviewsID, 1, 37)).String())
	require.Equal(t, "unknown", releaseOf(&corev3.Node{}).String())
}

// TestFiltersGoApartToEnvoysThatTakeThemSo: 1.40 is the oldest, and the stream has to be a delta
// stream. All others get them as parts of listeners.
func TestFiltersGoApartToEnvoysThatTakeThemSo(t *testing.T) {
	for _, c := range []struct {
		node         *corev3.Node
		delta, takes bool
	}{
		{node: envoyOf(reviewsID, 1, 40), delta: true, takes: true},
		{node: envoyOf(reviewsID, 2, 0), delta: true, takes: true},
		{node: envoyOf(reviewsID, 1, 40)},
		{node: envoyOf(reviewsID, 1, 39), delta: true},
		{node: &corev3.Node{Id: reviewsID, UserAgentName: "envoy"}, delta: true},
		{node: &corev3.Node{Id: reviewsID, UserAgentName: "grpc-go"}, delta: true},
	} {
		node, err := ParseNode(c.node)
		require.NoError(t, err)
		node.Delta = c.delta
		require.Equal(t, c.takes, node.TakesFilters(), "%s %s, delta %t", node.UserAgent, node.Release, c.delta)
	}
}
