package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestEachParentIsToldWhatItLacks: backends that calls in the mesh may have need a grant at a
// gateway, wherever that stands among the parents. What parents have in common is told once.
func TestEachParentIsToldWhatItLacks(t *testing.T) {
	mesh := model.ParentStatus{Accepted: model.Condition{Status: true}, ResolvedRefs: model.Condition{Status: true}}
	gateway := mesh
	gateway.ResolvedRefs = model.Condition{Reason: "RefNotPermitted", Message: "no grant"}
	problems := new(Checker).statusProblems(&model.GatewayAPIStatus{
		Parents: []model.ParentStatus{mesh, gateway, mesh, gateway},
	})
	require.Len(t, problems, 1)
	require.Equal(t, "spec.rules.backendRefs", problems[0].Path)
	require.Equal(t, "RefNotPermitted: no grant", problems[0].Message)
}

// TestAGatewayWithoutAnAddressIsAMistakeIfNobodyGivesItOne: its deployment makes it a Service, and
// the address of a load balancer comes by itself, or does not.
func TestAGatewayWithoutAnAddressIsAMistakeIfNobodyGivesItOne(t *testing.T) {
	for _, c := range []struct {
		address  model.AddressState
		deploys  bool
		reported []source.Severity
	}{
		{model.HasAddress, true, nil},
		{model.AwaitsDeployment, true, nil},
		{model.AwaitsDeployment, false, []source.Severity{source.Error}},
		{model.AwaitsBalancer, true, []source.Severity{source.Warning}},
		{model.LacksAddress, true, []source.Severity{source.Error}},
	} {
		status := &model.GatewayAPIStatus{Listeners: []model.ListenerStatus{{Name: "http"}}, Address: c.address}
		status.Programmed = model.Condition{Reason: "AddressNotAssigned", Message: "why"}
		if c.address == model.HasAddress {
			status.Programmed = model.Condition{Status: true, Reason: "Programmed"}
		}
		var reported []source.Severity
		for _, p := range (&Checker{Options: Options{DeploysGateways: c.deploys}}).statusProblems(status) {
			require.Equal(t, "spec.addresses", p.Path)
			require.Equal(t, "AddressNotAssigned: why", p.Message)
			reported = append(reported, p.Severity)
		}
		require.Equal(t, c.reported, reported, "%v %v", c.address, c.deploys)
	}
}
