package app

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/heap"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// How many bytes the control plane keeps of each object of a large estate, before any proxy
// connects.
const (
	bytesOfAService   = 4 << 10 // with its EndpointSlice's own
	bytesOfAnEndpoint = 1536    // of a Pod and its endpoint
	bytesOfPolicies   = 6 << 10 // of a VirtualService and a DestinationRule
)

// TestALargeEstateCostsLittle converts 200 namespaces with 4,000 services and 30,000 pods,
// applies them to the state, and measures what stays.
func TestALargeEstateCostsLittle(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("measures memory")
	}
	const services, pods = 4000, 30000
	kept := func(e meshgen.Estate) int {
		before := heap.InUse().Heap
		r := newRig(t, e.Objects())
		after := heap.InUse().Heap
		runtime.KeepAlive(r)
		return int(after - before)
	}
	e := meshgen.Estate{Namespaces: 200, Services: 1}
	base := kept(e)
	e.Services = services
	bare := kept(e)
	e.Pods = pods
	run := kept(e)
	e.Policies = true
	all := kept(e)
	service, pod, policies := (bare-base)/services, (run-bare)/pods, (all-run)/services
	t.Logf(
		"%d bytes for each service, %d for each pod and its endpoint, %d for the policies of a service; %d kB in all",
		service, pod, policies, all>>10,
	)
	require.Less(t, service, bytesOfAService)
	require.Less(t, pod, bytesOfAnEndpoint)
	require.Less(t, policies, bytesOfPolicies)
	require.Less(t, all, 100<<20)
}
