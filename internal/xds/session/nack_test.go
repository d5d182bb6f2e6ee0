package session_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/session"
)

// TestNackOfAnEarlierResponseQuarantinesNothing: a state-of-the-world Envoy that withholds its
// answers while a cluster warms says a refusal with the nonce and the version of a later response,
// which it accepted.
func TestNackOfAnEarlierResponseQuarantinesNothing(t *testing.T) {
	resources := newResources()
	state := func(generation uint64, clusters ...string) resource.State {
		return resource.NewState(generation).With(resource.Cluster, resources.set(clusters))
	}
	now := time.Unix(1000, 0)
	s := session.New(session.Options{Protocol: session.StateOfTheWorld, Differ: resource.NewDiffer(8)})
	s.Update(state(1, "a:1X"), resource.Overlay{}, now)
	require.Len(t, s.Request(session.Request{TypeURL: resource.Cluster.URL()}, now), 1)
	s.Update(state(2, "a:2"), resource.Overlay{}, now)
	later := s.Tick(now.Add(session.DefaultHold))
	require.Len(t, later, 1)

	require.Empty(t, s.Request(session.Request{
		TypeURL: resource.Cluster.URL(), Nonce: later[0].Nonce, VersionInfo: later[0].Version,
		Nack: &session.Nack{Message: "a: no"},
	}, now.Add(session.DefaultHold)))
	require.Empty(t, s.Status()[resource.Cluster].Quarantined)
	require.True(t, s.InSync())
}

// TestNackCountsWithTheVersionOfTheLastStream: a state-of-the-world client refuses with the version
// that it accepted last, be it on its last stream, where a response with the same nonce was sent of
// the same state. It is a refusal all the same, however often it comes back.
func TestNackCountsWithTheVersionOfTheLastStream(t *testing.T) {
	st := resource.NewState(1).With(resource.Endpoint, newResources().set([]string{"a:1"}))
	now := time.Unix(1000, 0)
	version := ""
	for range 3 {
		s := session.New(session.Options{Protocol: session.StateOfTheWorld, Differ: resource.NewDiffer(8)})
		s.Update(st, resource.Overlay{}, now)
		request := session.Request{TypeURL: resource.Endpoint.URL(), Names: []string{"a"}, VersionInfo: version}
		sent := s.Request(request, now)
		require.Len(t, sent, 1)
		request.Nonce, request.Nack = sent[0].Nonce, &session.Nack{Message: "a: no"}
		s.Request(request, now)
		require.Equal(t, []string{"a"}, s.Status()[resource.Endpoint].Quarantined)
		version = sent[0].Version // as if it had been taken
	}
}
