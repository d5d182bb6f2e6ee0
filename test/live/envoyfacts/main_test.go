// Package envoyfacts holds the real Envoy to what docs/protocol.md, 1 says of it: one test per
// statement, whose name ends with _1_1 for 1.1. Our rules rest on these; a test that fails with a
// new Envoy says which rule to look at again.
//
// Times that Envoy has of its own are made short in what is sent (a fetch that times out does so
// after a second), so that what the default of 15 s does is seen in one. What never happens is
// checked where it would have happened: behind something that comes later.
package envoyfacts

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lateen-mesh/lateen/internal/testkit/adscript"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	soon  = time.Second // a fetch that ends within the test
	never = time.Hour   // one that does not
)

// fact starts an Envoy for a subtest that runs in parallel with others.
func fact(t *testing.T, name string, check func(*testing.T, *adscript.Run)) {
	factWith(t, name, adscript.Options{}, check)
}

func factWith(t *testing.T, name string, o adscript.Options, check func(*testing.T, *adscript.Run)) {
	t.Run(name, func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts Envoy")
		}
		t.Parallel()
		check(t, adscript.Start(t, o))
	})
}

// start gives Envoy what it waits for at its start, one cluster without endpoints and no listener,
// until it is ready.
func start(r *adscript.Run) {
	r.AwaitOpen(adscript.Clusters)
	r.Send(adscript.Push("0", adscript.StaticCluster("anchor")))
	r.AwaitOpen(adscript.Listeners)
	r.Send(adscript.Removal(adscript.Listeners))
	r.Until("ready", r.Ready)
}

// give adds a cluster with endpoints to an Envoy that has started.
func give(r *adscript.Run, c *clusterv3.Cluster, hosts ...string) {
	cds := r.Send(adscript.Push("1", c))
	r.AwaitSubscribe(adscript.Endpoints, c.GetName())
	eds := r.Send(adscript.Push("1", adscript.Assignment(c.GetName(), hosts...)))
	r.AwaitAck(cds)
	r.AwaitAck(eds) // on a busy machine the fetch may have ended before
}

// giveCollection adds a cluster whose endpoints are a LEDS collection.
func giveCollection(r *adscript.Run, c *clusterv3.Cluster, collection string, hosts ...string) {
	cds := r.Send(adscript.Push("1", c))
	r.AwaitSubscribe(adscript.Endpoints, c.GetName())
	r.Send(adscript.Push("1", adscript.CollectionAssignment(c.GetName(), collection, soon)))
	r.AwaitSubscribe(adscript.Members, adscript.Collection(collection)+"*")
	members := r.Send(adscript.PushMembers("1", collection, hosts...))
	r.AwaitAck(cds)
	r.AwaitAck(members) // likewise
}

// changed is a cluster that differs from c in something that Envoy has to build a new cluster for.
func changed(c *clusterv3.Cluster) *clusterv3.Cluster {
	c = proto.CloneOf(c)
	c.ConnectTimeout = durationpb.New(c.GetConnectTimeout().AsDuration() + time.Second)
	return c
}

// inUse tells whether the cluster that is in use is c, by the field that changed changes.
func inUse(r *adscript.Run, c *clusterv3.Cluster) bool {
	body, ok := r.Config().Clusters[c.GetName()].Body.(*clusterv3.Cluster)
	return ok && proto.Equal(body.GetConnectTimeout(), c.GetConnectTimeout())
}

// hosts are addresses that nothing listens at.
func hosts(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("127.0.0.1:%d", 2001+i))
	}
	return all
}

// backend answers requests with its name.
func backend(t *testing.T, name string) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(name))
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func ok(body string) adscript.Answer { return adscript.Answer{Status: http.StatusOK, Body: body} }

// requests are those of a type behind a mark.
func requests(r *adscript.Run, mark int, t adscript.Type) []adscript.Request {
	return slices.DeleteFunc(r.Since(mark), func(req adscript.Request) bool { return req.Type != t })
}

// opened tells whether Envoy has asked for a type on its newest stream.
func opened(r *adscript.Run, t adscript.Type) bool {
	all := r.All()
	return slices.ContainsFunc(all, func(req adscript.Request) bool {
		return req.Type == t && req.Stream == all[len(all)-1].Stream
	})
}

// requireQuiet requires that Envoy subscribed to nothing since a mark, and unsubscribed from
// nothing.
func requireQuiet(t *testing.T, r *adscript.Run, mark int) {
	t.Helper()
	for _, req := range r.Since(mark) {
		require.Empty(t, req.Subscribe, "%s", req)
		require.Empty(t, req.Unsubscribe, "%s", req)
	}
}
