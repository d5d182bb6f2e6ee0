package validate

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// meshKey is the object with the mesh configuration.
var meshKey = source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"}

// checked is a mesh that is checked from generation to generation.
type checked struct {
	writer *state.Writer
	store  *ProblemStore
	check  *Checker
}

func newChecked() *checked {
	store := NewProblemStore(slog.New(slog.DiscardHandler), nil)
	check := NewChecker(store, Options{Pods: true, Mesh: meshKey})
	return &checked{writer: state.NewWriter(), store: store, check: check}
}

// apply makes a generation, and returns all problems that stand at it.
func (c *checked) apply(updates ...state.Update) []source.Problem {
	c.check.Check(c.writer.Apply(updates))
	c.store.Publish()
	return c.store.Problems()
}

func meta(k kinds.Kind, namespace, name string) model.Meta {
	return model.Meta{Kind: k, Namespace: namespace, Name: name}
}

func update(o model.Object, m model.Meta) state.Update {
	return state.Update{Key: m.Key(), Objects: []model.Object{o}}
}

func gone(u state.Update) state.Update { return state.Update{Key: u.Key} }

func kubeService(namespace, name string) state.Update {
	m := meta(kinds.Service, namespace, name)
	return update(&model.Service{Meta: m, Host: model.Resolve(
		name, namespace, "cluster.local",
	), Ports: []model.ServicePort{{Name: "http", Port: 80, Protocol: model.HTTP}}}, m)
}

func virtualService(subset string) state.Update {
	m := meta(kinds.VirtualService, "default", "v")
	return update(&model.VirtualService{Meta: m, Hosts: []model.Host{
		"a.default.svc.cluster.local",
	}, Gateways: []string{"default/gw"}, HTTP: []*model.HTTPRoute{
		{Destinations: []model.Destination{{Host: "a.default.svc.cluster.local", Subset: subset}}},
	}}, m)
}

func rule(subsets ...string) state.Update {
	m := meta(kinds.DestinationRule, "default", "r")
	r := &model.DestinationRule{Meta: m, Host: "a.default.svc.cluster.local"}
	for _, s := range subsets {
		r.Subsets = append(r.Subsets, model.Subset{Name: s})
	}
	return update(r, m)
}

// What objects say about each other is looked at again when either changes, and only then.
func TestRelationsAreChecked(t *testing.T) {
	c := newChecked()
	apply := func(updates ...state.Update) []string {
		var texts []string
		for _, p := range c.apply(updates...) {
			texts = append(texts, p.Path+" = "+p.Value+": "+p.Want)
		}
		return texts
	}
	require.Equal(t, []string{
		"spec.http[0].route[0].destination.host = a.default.svc.cluster.local: " +
			"the name of a Service in namespace default, or a fully qualified host",
		"spec.gateways[0] = default/gw: the namespace/name of a Gateway, or \"mesh\"",
	}, apply(virtualService("v3")))
	require.Equal(t, []string{
		"spec.http[0].route[0].destination.subset = v3: a DestinationRule for the host that defines it",
		"spec.gateways[0] = default/gw: the namespace/name of a Gateway, or \"mesh\"",
	}, apply(kubeService("default", "a")))
	require.Equal(t, []string{
		"spec.http[0].route[0].destination.subset = v3: one of v1, v2",
		"spec.gateways[0] = default/gw: the namespace/name of a Gateway, or \"mesh\"",
	}, apply(rule("v2", "v1")))
	m := meta(kinds.Gateway, "default", "gw")
	takesAll := []model.GatewayServer{{Port: 80, Hosts: []model.ScopedHost{{Namespace: "*", Host: "*"}}}}
	require.Len(t, apply(update(&model.Gateway{Meta: m, Servers: takesAll}, m)), 1)
	require.Empty(t, apply(rule("v3")))
	require.Len(t, apply(rule("v1")), 1)
	require.Empty(t, apply(gone(virtualService(""))))
}

// TestGatewayWithoutPodsIsWarnedOf: as soon as a Pod has the labels it is served.
func TestGatewayWithoutPodsIsWarnedOf(t *testing.T) {
	c := newChecked()
	m := meta(kinds.Gateway, "default", "gw")
	gateway := update(&model.Gateway{Meta: m, Selector: model.LabelsOf(map[string]string{"app": "gw"})}, m)
	unserved := []source.Problem{{
		Severity: source.Warning, Object: m.Key(), Path: "spec.selector", Value: "app=gw",
		Message: "selects no Pod, so that nobody serves this Gateway", Want: "the labels of the Pods of a gateway",
	}}
	require.Equal(t, unserved, c.apply(gateway))
	p := meta(kinds.Pod, "default", "gw-0")
	pod := update(&model.Workload{Meta: p, Labels: model.LabelsOf(map[string]string{"app": "gw"})}, p)
	require.Empty(t, c.apply(pod))
	require.Equal(t, unserved, c.apply(gone(pod)))
	require.Empty(t, c.apply(gone(gateway)))

	c.check = NewChecker(c.store, Options{})
	require.Empty(t, c.apply(gateway), "a source without Pods does not know")
}

// Pods of other namespaces do not serve a Gateway where PILOT_SCOPE_GATEWAY_TO_NAMESPACE is set.
func TestGatewayWithoutPodsOfItsNamespaceIsWarnedOf(t *testing.T) {
	c := newChecked()
	c.check = NewChecker(c.store, Options{Pods: true, OwnGateways: true})
	m := meta(kinds.Gateway, "default", "gw")
	labels := model.LabelsOf(map[string]string{"app": "gw"})
	other, own := meta(kinds.Pod, "shop", "gw-0"), meta(kinds.Pod, "default", "gw-0")
	c.apply(update(&model.Gateway{Meta: m, Selector: labels}, m))
	found := c.apply(update(&model.Workload{Meta: other, Labels: labels}, other))
	require.Len(t, found, 1)
	require.Equal(t, "selects Pods of other namespaces alone, so that nobody serves this Gateway "+
		"(PILOT_SCOPE_GATEWAY_TO_NAMESPACE)", found[0].Message)
	require.Equal(t, "the labels of a gateway's Pods in the namespace default", found[0].Want)
	pod := update(&model.Workload{Meta: own, Labels: labels}, own)
	require.Empty(t, c.apply(pod))
	require.Equal(t, found, c.apply(gone(pod)))
}
