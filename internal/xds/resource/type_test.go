package resource

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryTypeHasARowOfItsOwn(t *testing.T) {
	shorts, places := map[string]Type{}, map[sendOrder]Type{}
	for typ := range NumTypes {
		r := types[typ]
		require.NotEmpty(t, r.short)
		require.NotContains(t, shorts, r.short)
		shorts[r.short] = typ
		found, ok := TypeByURL(typ.URL())
		require.True(t, ok)
		require.Equal(t, typ, found)
		require.NotContains(t, places, r.upserts, "%s and another type have one place", typ)
		places[r.upserts] = typ
	}
	_, ok := TypeByURL("type.googleapis.com/envoy.service.runtime.v3.Runtime")
	require.False(t, ok)
}

// Make before break: clusters and what they need, what names them, and removals the other way
// round.
func TestPhasesListTheTypesInTheirOrder(t *testing.T) {
	require.Equal(t, []Type{Cluster, Endpoint, LbEndpoint, Secret}, UpsertsIn(Make))
	require.Equal(t, []Type{Listener, Filter, Route, VirtualHost, Name}, UpsertsIn(Refer))
	require.Equal(t, []Type{Cluster}, RemovalsIn(RemoveClusters))
	require.Equal(t, []Type{Endpoint, VirtualHost, Route, Secret, Filter}, RemovalsIn(RemoveRest))
	upserts := slices.Concat(UpsertsIn(Make), UpsertsIn(Refer))
	slices.Sort(upserts)
	require.Len(t, slices.Compact(upserts), int(NumTypes))
}
