package name_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/name"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
	"github.com/lateen-mesh/lateen/internal/xds/nametable"
)

func TestInputsAreMemoKeys(t *testing.T) { translatetest.RequireInput(t, name.Input{}) }

func TestTablesHaveOneName(t *testing.T) {
	lists := model.NewInterner[string]()
	addresses := lists.List([]string{"10.0.0.1", "fd00::1"})
	for _, c := range []struct {
		in   name.Input
		want nametable.Name
	}{
		{
			name.Input{
				Host: "db-0.db.shop.svc.cluster.local", Addresses: addresses, ShortName: "db-0.db", Namespace: "shop",
			},
			nametable.Name{
				Host: "db-0.db.shop.svc.cluster.local", IPs: []string{"10.0.0.1", "fd00::1"},
				Registry: "Kubernetes", ShortName: "db-0.db", Namespace: "shop",
			},
		},
		{
			name.Input{Host: "*.example.com", Addresses: addresses},
			nametable.Name{Host: "*.example.com", IPs: []string{"10.0.0.1", "fd00::1"}, Registry: "External"},
		},
	} {
		names, err := nametable.Parse(name.Table(c.in))
		require.NoError(t, err)
		require.Equal(t, []nametable.Name{c.want}, names)
		require.Equal(t, name.Table(c.in), name.Table(c.in))
	}
}
