package schedule_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/memory"
)

// withNewService is a loop that after a minute of calm got a Service whose EndpointSlices have yet
// to be written.
func withNewService(t *testing.T, with ...source.Change) *rig {
	r := newRig(t, early)
	r.sink(source.Event{Changes: with, Synced: true})
	advance(time.Minute)
	r.sink(source.Event{Changes: []source.Change{service("a", 80)}})
	synctest.Wait()
	return r
}

// leftAt is when generations left, from the minute of calm on.
func (r *rig) leftAt() (at []time.Duration) {
	for _, p := range r.published()[1:] {
		at = append(at, p.at-time.Minute)
	}
	return at
}

func endpointsIn(snap *state.Snapshot, s model.Host) (n int) {
	for claim := range snap.Claims(s) {
		for range snap.Endpoints(claim).All() {
			n++
		}
	}
	return n
}

func TestANewServiceLeavesWithItsEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withNewService(t)
		advance(30 * time.Millisecond)
		require.Empty(t, r.leftAt())
		r.sink(source.Event{Changes: []source.Change{slice("a-1", "10.0.0.1")}})
		advance(time.Minute)
		require.Equal(t, []time.Duration{30 * time.Millisecond}, r.leftAt())
		require.Equal(t, 1, endpointsIn(r.deltas()[1].To, "a.default.svc.cluster.local"))
	})
}

func TestANewServiceWithoutEndpointsWaitsForAQuietAtMost(t *testing.T) {
	for name, meanwhile := range map[string][]source.Change{
		"nothing comes":              nil,
		"endpoints of others":        {memory.Delete(kinds.EndpointSlice, "default", "b-1")},
		"the Service changes":        {service("a", 81)},
		"configuration that changes": {alias("b", 80)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := withNewService(t)
				for range 4 {
					advance(30 * time.Millisecond)
					if len(r.leftAt()) == 0 {
						r.sink(source.Event{Changes: meanwhile})
					}
				}
				advance(time.Minute)
				require.Equal(t, []time.Duration{100 * time.Millisecond}, r.leftAt())
			})
		})
	}
}

// A slice that lists nobody tells that there is nobody to wait for.
func TestANewServiceWaitsForASliceNotForAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withNewService(t)
		advance(10 * time.Millisecond)
		nobody := slice("a-1", "10.0.0.1")
		nobody.Object.(*discoveryv1.EndpointSlice).Endpoints = nil
		r.sink(source.Event{Changes: []source.Change{nobody}})
		advance(time.Minute)
		require.Equal(t, []time.Duration{10 * time.Millisecond}, r.leftAt())
	})
}

func TestAServiceWhoseEndpointsAreThereDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withNewService(t, slice("a-1", "10.0.0.1"))
		require.Equal(t, []time.Duration{0}, r.leftAt())
	})
}

// What else is wrong with it takes the time that it does, and endpoints that come do not send it
// off.
func TestANewServiceAndSomethingWrongWaitForBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withNewService(t)
		advance(10 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{routeTo("v1")}})
		advance(10 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{slice("a-1", "10.0.0.1")}})
		advance(40 * time.Millisecond)
		require.Empty(t, r.leftAt())
		r.sink(source.Event{Changes: []source.Change{subsetOf("v1")}})
		advance(time.Minute)
		require.Len(t, r.leftAt(), 1)
	})
}

// The rest of its apply may be there before its endpoints.
func TestANewServiceAndTheRestOfItsApplyLeaveWithEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withNewService(t)
		advance(5 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{alias("b", 80)}})
		advance(35 * time.Millisecond)
		require.Empty(t, r.leftAt())
		r.sink(source.Event{Changes: []source.Change{slice("a-1", "10.0.0.1")}})
		advance(time.Minute)
		require.Equal(t, []time.Duration{40 * time.Millisecond}, r.leftAt())
	})
}

// The rest of its apply follows a Service as it follows any first change.
func TestTheRestOfAnApplyFollowsANewService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := withNewService(t)
		advance(10 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{slice("a-1", "10.0.0.1")}})
		advance(5 * time.Millisecond)
		r.sink(source.Event{Changes: []source.Change{alias("b", 80)}})
		advance(time.Minute)
		require.Equal(t, []time.Duration{10 * time.Millisecond, 35 * time.Millisecond}, r.leftAt())
	})
}
