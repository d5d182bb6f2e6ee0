package adscript_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestScriptDrivesEnvoyInBothProtocols goes once through what the harness can do, in both
// protocols.
func TestScriptDrivesEnvoyInBothProtocols(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Envoy")
	}
	for name, o := range map[string]adscript.Options{"delta": {}, "sotw": {StateOfTheWorld: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script(t, adscript.Start(t, o))
		})
	}
}

func script(t *testing.T, r *adscript.Run) {
	open := r.AwaitOpen(adscript.Clusters)
	require.Nil(t, open.Node, "the marker came first")
	require.False(t, r.Ready())

	cds := r.Send(adscript.Push("v1", adscript.EDSCluster("a", "", time.Minute)))
	r.AwaitSubscribe(adscript.Endpoints, "a")
	r.Settle()
	require.True(t, r.Answered(cds))
	require.Contains(t, r.Config().WarmingClusters, "a")

	r.AwaitAck(r.Send(adscript.Push("v1", adscript.Assignment("a", "127.0.0.1:9001", "127.0.0.1:9000"))))
	require.Equal(t, "v1", r.Config().Clusters["a"].Version)
	require.Equal(t, []string{"127.0.0.1:9000", "127.0.0.1:9001"}, r.Hosts("a"))
	require.Nil(t, r.Hosts("b"))

	r.AwaitOpen(adscript.Listeners)
	r.Send(adscript.Push("v1", adscript.HTTPListener("l", "rc", time.Minute)))
	r.AwaitSubscribe(adscript.Routes, "rc")
	r.AwaitAck(r.Send(adscript.Push("v1",
		adscript.RouteTable("rc", adscript.AnsweringHost("web", "hello", "web.test")))))
	r.Until("ready", r.Ready)
	r.Until("an answer", func() bool {
		return r.Get("l", "web.test", "/") == adscript.Answer{Status: 200, Body: "hello"}
	})
	require.Equal(t, 404, r.Get("l", "other.test", "/").Status)
	require.Contains(t, r.Config().Listeners, "l")
	require.Contains(t, r.Config().Routes, "rc")

	mark := r.Mark()
	bad := adscript.PushNamed(adscript.Endpoints, "v2", adscript.Resource{Name: "a", Raw: []byte("no protobuf")})
	r.AwaitNack(r.Send(bad))
	require.Len(t, r.Since(mark), 1)

	again := r.Reconnect()
	require.Equal(t, 2, again.Stream)
	r.Settle()
	require.Equal(t, 1, r.Stat("cluster_manager.active_clusters")-1, "and that of the server")
}
