package app

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/history"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// TestAProxyThatComesBackIsKnown: if its class ended with it, history is told what the new one is
// made in place of, with the state then; once, and not while another proxy keeps the class.
func TestAProxyThatComesBackIsKnown(t *testing.T) {
	r := newRig(t, nil)
	registry := r.pipeline.registry
	var told []history.Return
	registry.returned = func(back history.Return) { told = append(told, back) }
	connect := func(name string) *fanout.Conn {
		n := &serve.Node{Type: serve.Sidecar, Address: netip.MustParseAddr("10.0.0.1"), Pod: name, Namespace: "default"}
		n.Metadata.InterceptionMode = serve.None
		conn, err := registry.Connect(t.Context(), n, serve.Identity{})
		require.NoError(t, err)
		return conn
	}
	a, b := connect("a"), connect("b")
	class := a.Class()
	a.Close()
	a = connect("a")
	require.Equal(t, class, a.Class())
	require.Empty(t, told)
	a.Close()
	b.Close()
	b = connect("b")
	defer b.Close()
	a = connect("a")
	defer a.Close()
	require.Len(t, told, 1)
	require.Equal(t, class, told[0].From)
	require.Equal(t, b.Class(), told[0].To)
	require.False(t, told[0].Was.IsNone())
	require.True(t, told[0].Was.Equal(told[0].State))
	stranger := connect("c")
	defer stranger.Close()
	require.Len(t, told, 1)
}
