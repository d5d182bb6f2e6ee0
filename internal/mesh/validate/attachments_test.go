package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// TestEachParentIsToldWhatItLacks: backends that calls in the mesh may have need a grant at a
// gateway, wherever that stands among the parents. What parents have in common is told once.
func TestEachParentIsToldWhatItLacks(t *testing.T) {
	mesh := model.ParentStatus{Accepted: model.Condition{Status: true}, ResolvedRefs: model.Condition{Status: true}}
	gateway := mesh
	gateway.ResolvedRefs = model.Condition{Reason: "RefNotPermitted", Message: "no grant"}
	problems := statusProblems(&model.GatewayAPIStatus{Parents: []model.ParentStatus{mesh, gateway, mesh, gateway}})
	require.Len(t, problems, 1)
	require.Equal(t, "spec.rules.backendRefs", problems[0].Path)
	require.Equal(t, "RefNotPermitted: no grant", problems[0].Message)
}
