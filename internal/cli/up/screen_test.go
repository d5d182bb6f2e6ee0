package up

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/process"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

// TestTakenPortsAreTold: those of the control plane end the command, those of gateways stand in the
// banner, and both name the flag that helps.
func TestTakenPortsAreTold(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = taken.Close() }()

	_, err = newMesh(upOptions{
		dir: t.TempDir(), stateDir: t.TempDir(), envoy: "/bin/true",
		log:    process.LogFlags{Level: "info", Format: "text"},
		listen: process.ListenFlags{XDS: taken.Addr().String(), Monitoring: "127.0.0.1:0"},
	}, nil)
	require.ErrorContains(t, err, "--xds-address "+taken.Addr().String())
	require.ErrorContains(t, err, "lateen up --free-ports")

	var out strings.Builder
	m := &mesh{out: console.Plain(&out), monitoring: taken}
	m.table(&local.Snapshot{ClosedPorts: []source.Problem{{
		Object: source.Key{Kind: kinds.Service, Namespace: "istio-system", Name: "gw"}, Path: "spec.ports", Value: "80",
		Message: "cannot be opened", Want: "lateen up --free-ports",
	}}})
	require.Contains(t, out.String(), `gateway  Service istio-system/gw: spec.ports = "80": cannot be opened; want `+
		"lateen up --free-ports\n")
}
