package compile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// talliedMesh is a mesh with a sidecar and a gateway.
type talliedMesh struct {
	*testing.T
	writer  *state.Writer
	comp    *Compiler
	members []*Member
}

func newTalliedMesh(t *testing.T, objects ...model.Object) *talliedMesh {
	m := &talliedMesh{t, state.NewWriter(), NewCompiler(refuseNothing(t)), nil}
	m.apply(objects...)
	for _, p := range []Facts{{Proxy: patchedSidecar()}, {Proxy: gatewayProxy()}} {
		m.comp.Join(p, func(joined *Member, _ Placement) { m.members = append(m.members, joined) })
	}
	return m
}

func (m *talliedMesh) apply(objects ...model.Object) (appeared, fixed []string) {
	_, d := m.writer.Apply(updatesOf(objects))
	m.comp.Advance(d, func(s Step) { appeared, fixed = textsOf(s.Appeared), textsOf(s.Fixed) })
	return appeared, fixed
}

func textsOf(problems []source.Problem) (texts []string) {
	for _, p := range problems {
		texts = append(texts, p.Severity.String()+" "+p.Path)
	}
	return texts
}

const idleFirst = "warning spec.configPatches[0].match"

// What a patch matches is counted for the proxies that have it, and told when it is nothing.
func TestPatchesSayWhatTheyMatch(t *testing.T) {
	const timeout = "MERGE | value: {connect_timeout: 3s}"
	all := patchingFilter(t, "f", "CLUSTER | context: SIDECAR_OUTBOUND | "+timeout)
	one := patchingFilter(t, "f",
		"CLUSTER | context: SIDECAR_OUTBOUND, cluster: {name: 'outbound|80||web.default.svc.cluster.local'} | "+timeout)
	none := patchingFilter(t, "f", "CLUSTER | cluster: {name: none} | "+timeout)
	m := newTalliedMesh(t, append(patchedServices(), all)...)
	first := m.comp.PatchMatches()
	require.Len(t, first, 1)
	require.Equal(t, 1, first[0].Selected, "the patch is for sidecars")
	require.Equal(t, 1, first[0].Proxies)
	require.Greater(t, first[0].Resources, 1)

	appeared, _ := m.apply(one)
	require.Empty(t, appeared)
	require.Equal(t, 1, m.comp.PatchMatches()[0].Resources)

	appeared, _ = m.apply(none)
	require.Equal(t, []string{idleFirst}, appeared)
	require.Equal(t, PatchMatches{Owner: none.Key(), Selected: 2}, m.comp.PatchMatches()[0])

	_, fixed := m.apply(one)
	require.Equal(t, []string{idleFirst}, fixed)

	_, d := m.writer.Apply([]state.Update{{Key: updatesOf(patchedServices())[0].Key}})
	m.comp.Advance(d, func(s Step) { appeared = textsOf(s.Appeared) })
	require.Contains(t, appeared, idleFirst, "the service that it matched is gone")

	for _, left := range m.members {
		m.comp.Leave(left)
	}
	require.Empty(t, m.comp.PatchMatches())
	require.Empty(t, m.comp.matched.of)
	require.Empty(t, textsOf(m.comp.problems()))
}

// A patch that cannot be applied is told with the reason.
func TestPatchesSayWhereTheyFail(t *testing.T) {
	m := newTalliedMesh(t, patchedServices()...)
	appeared, _ := m.apply(patchingFilter(t, "f",
		"CLUSTER | context: SIDECAR_OUTBOUND | MERGE | value: {connect_timeout: 0s}"))
	require.Contains(t, appeared, "error spec.configPatches[0].patch")
	of := m.comp.PatchMatches()[0]
	require.Equal(t, of.Resources, of.Failed)

	_, fixed := m.apply(patchingFilter(t, "f",
		"CLUSTER | context: SIDECAR_OUTBOUND | MERGE | value: {connect_timeout: 1s}"))
	require.Equal(t, []string{"error spec.configPatches[0].patch"}, fixed)
	require.Zero(t, m.comp.PatchMatches()[0].Failed)
}

// What a plan refuses is told by the step alone.
func TestAPlanTellsNobodyOfWhatItRefuses(t *testing.T) {
	var told []RefusedPatch
	refusals := refuseNothing(t)
	refusals.Patch = func(r RefusedPatch) { told = append(told, r) }
	m := &talliedMesh{t, state.NewWriter(), NewCompiler(refusals), nil}
	m.apply(patchedServices()...)
	m.comp.Join(Facts{Proxy: patchedSidecar()}, func(*Member, Placement) {})
	bad := updatesOf([]model.Object{patchingFilter(t, "f",
		"CLUSTER | context: SIDECAR_OUTBOUND | MERGE | value: {connect_timeout: 0s}")})
	_, d := m.writer.Fork().Apply(bad)
	require.NotEmpty(t, m.comp.Foresee(d).Appeared, "who asks is told")
	require.Empty(t, told)
	_, d = m.writer.Apply(bad)
	m.comp.Advance(d, func(Step) {})
	require.NotEmpty(t, told)
}

// The effects of a deletion are what proxies have because of the object, and asking changes
// nothing.
func TestEffectsOfAPatch(t *testing.T) {
	f := patchingFilter(t, "f",
		"CLUSTER | context: SIDECAR_OUTBOUND, cluster: {name: 'outbound|80||web.default.svc.cluster.local'} | "+
			"MERGE | value: {connect_timeout: 3s}")
	m := newTalliedMesh(t, append(patchedServices(), f)...)
	before := m.comp.PatchMatches()
	_, without := m.writer.Fork().Apply([]state.Update{{Key: f.Key()}})
	effects := m.comp.Foresee(without).Effects
	require.Len(t, effects, 1)
	require.Equal(t, 1, effects[0].Proxies)
	require.Len(t, effects[0].Changes, 1)
	require.Equal(t, "outbound|80||web.default.svc.cluster.local", effects[0].Changes[0].Name())
	require.NotEqual(t, effects[0].Changes[0].Before.Body(), effects[0].Changes[0].After.Body())
	require.Equal(t, before, m.comp.PatchMatches())
}
