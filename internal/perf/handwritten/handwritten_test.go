package handwritten

import (
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

func TestEnvoyTakesTheConfiguration(t *testing.T) {
	envoy, dir := realenvoy.Binary(t), t.TempDir()
	own, peer, err := Transports(dir)
	require.NoError(t, err)
	at := netip.MustParseAddrPort("127.0.0.1:9")
	file := filepath.Join(dir, "envoy.json")
	require.NoError(t, Config{
		Listeners: []Listener{
			{Name: "http", At: at, Routes: []Route{{"/a", "one"}, {"/", "two"}}, Transport: own},
			{Name: "bytes", At: netip.AddrPortFrom(at.Addr(), 10), Routes: []Route{{"/", "one"}}, Bytes: true},
		},
		Clusters: []Cluster{{Name: "one", To: at, Transport: peer}, {Name: "two", To: at, HTTP2: true}},
	}.Write(file))
	out, err := exec.Command(envoy, "--mode", "validate", "--config-path", file).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	free, err := FreeAddresses(2)
	require.NoError(t, err)
	require.NotEqual(t, free[0], free[1])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, Await(ctx, free[0]), "no hand-written Envoy listens at "+free[0].String())
}
