package sidecar_test

import (
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/sidecar"
)

// TestExtrasAreAskedForAndNotWaitedFor: the table of an agent's DNS proxy and secrets, also on the
// next stream.
func TestExtrasAreAskedForAndNotWaitedFor(t *testing.T) {
	s := startScript(t)
	f := newFleet(t,
		sidecar.Options{Targets: []string{s.address}, Backoff: quick, Log: logTo(t), NameTable: true,
			Secrets: []string{"default", "ROOTCA"}})
	one := f.Start(web, sidecar.Faults{})
	c := <-s.streams
	c.hears("CDS")
	c.says("c1", sidecar.Cluster)
	c.hears("NDS", "SDS +ROOTCA,default", "LDS", "CDS ack c1")
	c.says("l1", sidecar.Listener)
	c.hears("LDS ack l1")
	require.NoError(t, f.Await(t.Context(), func(s sidecar.Stats) bool { return s.Synced == 1 }))
	c.says("s1", &tlsv3.Secret{Name: "ROOTCA"})
	c.hears("SDS ack s1")
	c.says("n1", sidecar.NameTable)
	c.hears("NDS ack n1")
	require.Equal(t, map[string]string{"ROOTCA": "s1"}, one.Resources(sidecar.Secret))

	one.Reconnect()
	c = <-s.streams
	c.hears("CDS", "LDS", "SDS +ROOTCA,default init ROOTCA=s1", "NDS")
}
