package up

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/cli/process"
	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// TestPodsThatDoNotRunAreShown: one that was not started has no address, one that failed says so.
func TestPodsThatDoNotRunAreShown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	var out strings.Builder
	m := &mesh{out: console.Plain(&out), monitoring: listener}
	m.table(&local.Snapshot{Pods: []local.PodStatus{
		{Namespace: "a", Name: "b-0", State: local.Pending, Why: "no address is free"},
		{
			Namespace: "a", Name: "pack-0", State: local.Failed, Why: "app: crashed: exit status 1",
			Pod: netip.MustParseAddr("127.32.1.2"),
		},
	}})
	require.Contains(t, out.String(), `NAMESPACE  POD     READY    ADDRESS     PROCESS
a          b-0     Pending  -           -
a          pack-0  Failed   127.32.1.2  -
  a/b-0: Pending: no address is free
  a/pack-0: Failed: app: crashed: exit status 1
`)
}

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

// TestGuideShowsTheScreen: the columns of the table, and the lines of what happens.
func TestGuideShowsTheScreen(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	var out strings.Builder
	m := &mesh{out: console.Plain(&out), monitoring: listener}
	m.table(&local.Snapshot{
		Pods: []local.PodStatus{{
			Namespace: "default", Name: "web-0", State: local.Running, Ready: true,
			Pod: netip.MustParseAddr("127.32.1.2"), Processes: []local.ProcessStatus{{PID: 1}},
		}},
		LoadBalancers: []local.LoadBalancer{{
			Namespace: "default", Service: "ingressgateway", HTTP: true,
			Address: netip.MustParseAddrPort("127.0.0.1:8080"),
		}},
	})
	now := time.Now()
	m.push(fanout.Record{
		Generation: 4, Cause: "VirtualService default/reviews", Proxies: 6, Bytes: 7000, Observed: now,
		Answered: now.Add(59 * time.Millisecond), Finished: now,
	})
	for _, text := range []string{"ready at 127.32.192.94", "leaving", "stopped"} {
		m.notice(local.Notice{Time: now, Pod: "default/reviews-v1-t68x7gqs5-gsg74", Text: text})
	}
	for line := range strings.Lines(out.String()) {
		console.Shows(t, console.LocalGuide, line)
	}
}
