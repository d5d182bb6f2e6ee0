package serve

import (
	"context"
	"fmt"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

var ofReviews = Identity{
	TrustDomain: "cluster.local", Namespace: "default", ServiceAccount: "reviews", Pod: "reviews-v1-0",
}

// withToken opens a delta stream with a bearer token.
func (f *fixture) withToken(token, id string) deltaStream {
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(f.t.Context(), "authorization", "Bearer "+token))
	s, err := f.client.DeltaAggregatedResources(ctx)
	require.NoError(f.t, err)
	d := deltaStream{f.t, s, cancel}
	d.send(&discoveryv3.DeltaDiscoveryRequest{Node: nodeOf(id), TypeUrl: resource.Cluster.URL()})
	return d
}

func TestStreamEndsWhenItsTokenHasExpired(t *testing.T) {
	now := time.Now()
	expires := ofReviews
	expires.Expires = now.Add(-time.Minute)
	f := newFixture(t, func(o *Options) { o.Authenticator = tokens{"Bearer old": expires, "Bearer new": ofReviews} })
	f.server.endings.jitter = func() time.Duration { return -expiryGrace } // no grace
	f.withToken("old", reviewsID).fails(codes.Canceled, "")
	f.eventually("ended", func() bool {
		return f.value("lateen_xds_ended_streams_total", "reason", "token_expired") == 1
	})
	f.logged(errTokenExpired.Error())
	d := f.withToken("new", reviewsID)
	d.ack(d.recv())
	f.eventually("one that does not expire stays", func() bool { return len(f.server.Clients()) == 1 })
}

func TestStreamEndsWhenItsPodIsGone(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Authenticator = tokens{
			"Bearer pod": ofReviews, "Bearer unbound": {Namespace: "default", ServiceAccount: "reviews"},
		}
	})
	now := time.Now()
	f.server.endings.now = func() time.Time { return now }
	pod, unbound := f.withToken("pod", reviewsID), f.withToken("unbound", reviewsID)
	pod.ack(pod.recv())
	unbound.ack(unbound.recv())
	f.eventually("both connected", func() bool { return len(f.server.Clients()) == 2 })

	f.server.PodGone("other", "reviews-v1-0")
	f.server.PodGone("default", "reviews-v1-1")
	f.server.endings.endDue()
	require.Len(t, f.server.Clients(), 2, "Pods of others")

	f.server.PodGone("default", "reviews-v1-0")
	f.withToken("pod", reviewsID).fails(codes.Unauthenticated, errPodGone.Error())
	require.Len(t, f.server.Clients(), 2, "a proxy may end by itself")
	f.server.PodCame("default", "reviews-v1-0") // as of a StatefulSet
	f.server.endings.mu.Lock()
	now = now.Add(podGrace)
	f.server.endings.mu.Unlock()
	f.server.endings.endDue()
	pod.fails(codes.Canceled, "")
	f.eventually("ended", func() bool { return f.value("lateen_xds_ended_streams_total", "reason", "pod_gone") == 1 })
	f.eventually("nobody proved to be of the Pod", func() bool { return len(f.server.Clients()) == 1 })
	again := f.withToken("pod", reviewsID)
	again.recv()
}

// endingsAt is endings with a clock that stands still, and streams that record why they ended.
type endingsAt struct {
	*endings
	at    time.Time
	ended map[string]error
}

func newEndingsAt() *endingsAt {
	e := &endingsAt{at: time.Unix(1000, 0), ended: map[string]error{}}
	e.endings = newEndings(func() time.Time { return e.at })
	e.jitter = func() time.Duration { return 0 }
	return e
}

func (e *endingsAt) stream(name string, id Identity) *stream {
	st := &stream{owner: ownerOf(id, nil), expires: id.Expires, cancel: func(why error) { e.ended[name] = why }}
	e.add(st)
	return st
}

// pass lets time pass without the timer.
func (e *endingsAt) pass(d time.Duration) {
	e.mu.Lock()
	e.at = e.at.Add(d)
	e.mu.Unlock()
	e.endDue()
}

func TestStreamsEndInTheOrderOfTheirTimes(t *testing.T) {
	e := newEndingsAt()
	pod := func(i int, expires time.Duration) Identity {
		return Identity{Namespace: "default", ServiceAccount: "a", Pod: fmt.Sprint(i), Expires: e.at.Add(expires)}
	}
	e.stream("anonymous", Identity{})
	e.stream("second", pod(2, 2*time.Hour))
	e.stream("first", pod(1, time.Hour))
	left := e.stream("left", pod(1, time.Hour))
	e.stream("wrong clock", pod(3, -time.Hour))
	e.remove(left)
	e.pass(expiryGrace)
	require.Equal(t, map[string]error{"wrong clock": errTokenExpired}, e.ended)
	e.pass(time.Hour)
	require.Equal(t, map[string]error{"wrong clock": errTokenExpired, "first": errTokenExpired}, e.ended)
	e.podGone(podName{"default", "2"})
	e.pass(podGrace - 1)
	require.NotContains(t, e.ended, "second")
	e.pass(1)
	require.Equal(t, errPodGone, e.ended["second"])
	require.NotContains(t, e.ended, "anonymous")
	require.NotContains(t, e.ended, "left")
	e.stream("late", pod(2, time.Hour)) // between the refusal and the registration the Pod went
	e.pass(0)
	require.Equal(t, errPodGone, e.ended["late"])
}

func TestPodsAreRememberedAsGoneForAWhileAndBounded(t *testing.T) {
	e := newEndingsAt()
	e.podGone(podName{"default", "a"})
	e.pass(goneFor - 1)
	require.True(t, e.isGone(podName{"default", "a"}))
	e.pass(1)
	require.False(t, e.isGone(podName{"default", "a"}))
	for i := range maxGone + 10 {
		e.podGone(podName{"default", fmt.Sprint(i)})
	}
	require.Len(t, e.gone, maxGone)
	require.Len(t, e.order, maxGone)
	require.False(t, e.isGone(podName{"default", "0"}))
	require.True(t, e.isGone(podName{"default", fmt.Sprint(maxGone)}))
}

// Tokens that expire together do not end their streams together.
func TestExpiriesAreSpread(t *testing.T) {
	e := newEndings(time.Now)
	seen := map[time.Duration]bool{}
	for range 100 {
		j := e.jitter()
		require.True(t, j >= 0 && j < expirySpread)
		seen[j] = true
	}
	require.Greater(t, len(seen), 90)
}

// Rights belong to a gateway's account; other proxies of it stay connected.
func TestGatewaysOfAnAccountAreEnded(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Authenticator = tokens{"Bearer pod": ofReviews} })
	sidecar := f.withToken("pod", reviewsID)
	sidecar.recv()
	router := f.withToken("pod", "router"+reviewsID[len("sidecar"):])
	router.ack(router.recv())
	f.eventually("both connected", func() bool { return len(f.server.Clients()) == 2 })
	f.server.EndGateways("default", "other")
	f.server.EndGateways("other", "reviews")
	require.Len(t, f.server.Clients(), 2)
	f.server.EndGateways("default", "reviews")
	router.fails(codes.Canceled, "")
	f.eventually("ended", func() bool {
		return f.value("lateen_xds_ended_streams_total", "reason", "rights_changed") == 1
	})
	f.eventually("the sidecar stays", func() bool { return len(f.server.Clients()) == 1 })
}
