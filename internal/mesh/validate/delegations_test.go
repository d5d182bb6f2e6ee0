package validate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

func delegateTo(host model.Host, before ...*model.HTTPRoute) state.Update {
	m := meta(kinds.VirtualService, "b", "d")
	d := &model.DelegateRoutes{Meta: m, ExportTo: model.Exports{All: true}}
	d.HTTP = append(before, &model.HTTPRoute{Destinations: []model.Destination{{Host: host}}})
	d.Given = make([]model.Given, len(d.HTTP))
	return update(d, m)
}

func rootNaming(name string, delegates ...string) state.Update {
	m := meta(kinds.VirtualService, "a", name)
	root := &model.RootRoutes{VirtualService: model.VirtualService{
		Meta: m, Hosts: []model.Host{model.Host(name + ".test")}, Gateways: []string{model.Mesh},
	}}
	for i, d := range delegates {
		root.Delegations = append(root.Delegations, model.Delegation{
			Route: i, To: model.ObjectName{Namespace: "b", Name: d},
		})
		root.HTTP = append(root.HTTP, &model.HTTPRoute{Matches: []*model.HTTPMatch{{
			URI: &model.StringMatch{Kind: model.Prefix, Value: "/"},
		}}})
	}
	root.HTTP = append(root.HTTP, &model.HTTPRoute{Direct: &model.DirectResponse{Status: 404}})
	return update(root, m)
}

// What is wrong with routes is told of the VirtualService that has them, once however many roots
// delegate to it, and goes when they do.
func TestProblemsOfADelegateFollowItsRoots(t *testing.T) {
	c := newChecked()
	const (
		unused = "warning: VirtualService b/d: spec.hosts: is empty, and no VirtualService delegates to this one, " +
			"so it changes nothing"
		missing = "no Service or ServiceEntry has this host; requests are answered with 503"
	)
	apply := func(updates ...state.Update) []string {
		var told []string
		for _, p := range c.apply(updates...) {
			p.Want = ""
			told = append(told, p.String())
		}
		return told
	}
	at := func(path string) string {
		return "error: VirtualService b/d: " + path + `.route[0].destination.host = "x.test": ` + missing
	}
	closed := func(name string) string {
		return `error: VirtualService a/r: spec.http[0].delegate = "b/` + name +
			`": there is no such VirtualService; requests are answered with 503`
	}
	require.ElementsMatch(t, []string{closed("d")}, apply(rootNaming("r", "d")))
	require.ElementsMatch(t, []string{at("spec.http[0]")}, apply(delegateTo("x.test")))
	require.ElementsMatch(t, []string{at("spec.http[0]")}, apply(rootNaming("s", "d", "d")))
	redirect := &model.HTTPRoute{Redirect: &model.Redirect{URI: "/"}}
	require.ElementsMatch(t, []string{at("spec.http[1]")}, apply(delegateTo("x.test", redirect)))
	require.ElementsMatch(t, []string{at("spec.http[1]")}, apply(gone(rootNaming("s"))))
	require.ElementsMatch(t, []string{closed("e"), unused}, apply(rootNaming("r", "e")))
	require.ElementsMatch(t, []string{closed("e"), at("spec.http[1]")}, apply(rootNaming("r", "e", "d")))
	outside := &model.HTTPRoute{Direct: &model.DirectResponse{Status: 200}, Matches: []*model.HTTPMatch{{
		URI: &model.StringMatch{Kind: model.Regex, Value: ".*"},
	}}}
	require.ElementsMatch(t, []string{at("spec.http[0]")}, apply(rootNaming("r", "d"), delegateTo("x.test")))
	require.ElementsMatch(t, []string{ // the same routes, written elsewhere
		at("spec.http[1]"), `warning: VirtualService a/r: spec.http[0].delegate = "b/d": ` +
			"its spec.http[0] is left out: match[0] is not within a match of the route that delegates",
	}, apply(delegateTo("x.test", outside)))
	require.ElementsMatch(t, []string{unused}, apply(gone(rootNaming("r"))))
	require.Empty(t, apply(gone(delegateTo(""))))
}
