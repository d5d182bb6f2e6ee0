package serve

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

func TestDistrustLastsToTheNextStream(t *testing.T) {
	var d distrustStore
	var some names
	some[resource.Cluster] = map[string]struct{}{"a": {}}
	d.remember("p", names{})
	require.Empty(t, d.known)
	d.remember("p", some)
	d.remember("p", some)
	require.Equal(t, some, d.take("p"))
	require.Equal(t, names{}, d.take("p"))
	require.Empty(t, d.order)
}

func TestDistrustIsBounded(t *testing.T) {
	var d distrustStore
	var some names
	some[resource.Route] = map[string]struct{}{"80": {}}
	for i := range maxDistrust + 2 {
		d.remember(fmt.Sprint(i), some)
	}
	require.Len(t, d.known, maxDistrust)
	require.Len(t, d.order, maxDistrust)
	require.Equal(t, names{}, d.take("1"))
	require.Equal(t, some, d.take("2"))
}
