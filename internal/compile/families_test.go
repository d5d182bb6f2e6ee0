package compile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// Proxies that differ by their families of addresses alone share what they may: a proxy of both has
// each endpoint's second address, in an assignment of its own. What each has is what it gets alone,
// from nothing, whoever came first.
func TestProxiesOfOneAndOfBothFamiliesHaveTheirOwnAssignments(t *testing.T) {
	service := aloneService("a", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
	service.Family, service.TwoFamilies = model.IPv4, true
	pod := gatewayPod()
	pod.Addresses = []string{"127.1.0.1", "fd00::1"}
	slice := &model.EndpointSlice{
		Meta: aloneMeta(kinds.EndpointSlice, "a-1"), Service: "a",
		Ports: []model.SlicePort{{Name: "http", Port: 80}},
		Hosts: []model.SliceHost{{Address: pod.Addresses[0], Pod: pod.Name, Health: model.Healthy}},
	}
	stacks := []model.Stack{model.IPv4Stack, model.DualStack}
	for _, order := range [][]model.Stack{stacks, {stacks[1], stacks[0]}} {
		w, c := state.NewWriter(), NewCompiler(refuseNothing(t))
		for _, stack := range order {
			c.Join(Facts{Proxy: scope.Proxy{
				Namespace: "default", Name: "p", Settings: scope.Settings{Stack: stack},
			}}, func(*Member, Placement) {})
		}
		for _, updates := range [][]state.Update{
			updatesOf([]model.Object{service, pod, slice}),
			{{Key: slice.Key()}},
			updatesOf([]model.Object{slice}),
		} {
			_, d := w.Apply(updates)
			c.Advance(d, func(Step) {})
			for m := range c.members.all() {
				alone := placeIn(t, w.Snapshot(), m.known.Proxy)
				require.Equal(t, dump(alone.state), dump(m.variant.state))
			}
		}
	}
}
