package kube_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// root is a root namespace of the test's own, with a mesh configuration.
func root(t *testing.T, api *kubeapi.Server, c cluster, mesh string) string {
	t.Helper()
	ns := api.Namespace(t, nil)
	configure(t, c, ns, mesh)
	return ns
}

func configure(t *testing.T, c cluster, root, mesh string) {
	t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "istio"}, Data: map[string]string{"mesh": mesh}}
	if _, err := c.CoreV1().ConfigMaps(root).Update(t.Context(), config, metav1.UpdateOptions{}); err == nil {
		return
	}
	_, err := c.CoreV1().ConfigMaps(root).Create(t.Context(), config, metav1.CreateOptions{})
	require.NoError(t, err)
}

func (c cluster) label(t *testing.T, namespace, label, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, label, value)
	_, err := c.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// nudge changes a Service, which is seen if the namespace is watched.
func nudge(t *testing.T, c cluster, namespace, mark string) {
	t.Helper()
	patchService(t, c, namespace, "web", fmt.Sprintf(
		`{"metadata":{"annotations":{"networking.istio.io/exportTo":%q}}}`, mark,
	))
}

func (s *sink) nudged(namespace string) string {
	if o, ok := s.get(key(kinds.Service, namespace, "web")).(*corev1.Service); ok {
		return o.Annotations["networking.istio.io/exportTo"]
	}
	return ""
}

func TestNamespacesComeAndGoByTheirLabels(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c := clientOf(t, api.Config())
	label := "mesh-" + api.Namespace(t, nil)
	first, second := api.Namespace(t, map[string]string{label: "in"}), api.Namespace(t, nil)
	c.createAll(t, first)
	c.createAll(t, second)
	home := root(t, api, c, fmt.Sprintf(
		"discoverySelectors:\n- matchLabels: {%s: in}\n- matchExpressions: [{key: %s, operator: In, values: [also]}]\n",
		label, label,
	))
	s := run(t, kube.Options{Config: api.Config(), RootNamespace: home})
	s.awaitSync()
	require.Equal(t, everything, s.in(first))
	require.Empty(t, s.in(second))
	require.NotNil(t, s.get(key(kinds.Namespace, "", second)), "its own object is all that is known of it")
	require.Equal(t, []string{"ConfigMap istio"}, s.in(home))

	before := s.count()
	c.label(t, second, label, `"also"`)
	eventually(t, func() bool { return len(s.in(second)) > 0 })
	require.Equal(t, everything, s.in(second))
	require.Len(t, s.since(before, second), 1, "a namespace comes as a whole")
	nudge(t, c, second, "1")
	eventually(t, func() bool { return s.nudged(second) == "1" })

	before = s.count()
	c.label(t, second, label, "null")
	eventually(t, func() bool { return len(s.in(second)) < len(everything) })
	require.Empty(t, s.in(second))
	require.Len(t, s.since(before, second), 1, "and goes as a whole")
	nudge(t, c, second, "2")
	nudge(t, c, first, "2")
	eventually(t, func() bool { return s.nudged(first) == "2" })
	require.Empty(t, s.in(second))

	before = s.count()
	configure(t, c, home, "connectTimeout: 7s\n")
	eventually(t, func() bool { return len(s.in(second)) > 0 })
	require.Equal(t, everything, s.in(second))
	require.Empty(t, s.since(before, first), "what was there is not delivered again")

	configure(t, c, home, "discoverySelectors:\n- matchLabels: {nobody: has}\n")
	eventually(t, func() bool { return len(s.in(first)) == 0 && len(s.in(second)) == 0 })
	configure(t, c, home, "discoverySelectors:\n- matchExpressions: [{key: a, operator: Like}]\n")
	eventually(t, func() bool { return len(s.in(first)) == len(everything) })
	require.Contains(
		t,
		s.problem("discovery selectors"),
		`data.mesh.discoverySelectors[0]: cannot be read: "Like" is not a valid label selector operator; all namespaces are in the mesh`,
	)
	require.NoError(t, c.CoreV1().ConfigMaps(home).Delete(t.Context(), "istio", metav1.DeleteOptions{}))
	eventually(t, func() bool { return s.problem("") == "" })
	require.Equal(t, everything, s.in(first))
}

// With many namespaces in the mesh there is one watch for all, which drops what others do.
func TestManyNamespacesAreWatchedTogether(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c := clientOf(t, api.Config())
	label := "many-" + api.Namespace(t, nil)
	var all []string
	for range 40 {
		ns, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "many-", Labels: map[string]string{label: "in"}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		all = append(all, ns.Name)
		_, err = c.CoreV1().Services(ns.Name).Create(t.Context(), service("web"), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, ns := range all {
			_ = c.CoreV1().Namespaces().Delete(context.Background(), ns, metav1.DeleteOptions{})
		}
	})
	last, outside := all[39], all[38]
	c.label(t, outside, label, "null")
	c.label(t, last, label, "null")
	home := root(t, api, c, fmt.Sprintf("discoverySelectors:\n- matchLabels: {%s: in}\n", label))
	s := run(t, kube.Options{Config: api.Config(), RootNamespace: home})
	s.awaitSync()
	holds := func(ns string) bool { return len(s.in(ns)) == 1 }
	require.True(t, holds(all[0]))
	require.False(t, holds(outside))

	before := s.count()
	nudge(t, c, outside, "1")
	nudge(t, c, all[0], "1")
	eventually(t, func() bool { return s.nudged(all[0]) == "1" })
	require.NotZero(t, s.counter("lateen_watch_events_total", "Service", "ignored"))

	c.label(t, last, label, `"in"`) // gets watches of its own
	eventually(t, func() bool { return holds(last) })
	nudge(t, c, last, "2")
	eventually(t, func() bool { return s.nudged(last) == "2" })
	c.label(t, all[0], label, "null")
	eventually(t, func() bool { return !holds(all[0]) })
	c.label(t, all[0], label, `"in"`)
	eventually(t, func() bool { return holds(all[0]) })
	require.Empty(t, s.since(before, all[1]))

	for _, ns := range all[5:] { // few are left, which get watches of their own
		c.label(t, ns, label, "null")
	}
	eventually(t, func() bool { return !holds(last) && !holds(all[5]) })
	for i, ns := range all[:5] {
		nudge(t, c, ns, fmt.Sprint(i))
		eventually(t, func() bool { return s.nudged(ns) == fmt.Sprint(i) })
	}
	require.Len(t, s.since(before, all[1]), 1, "the nudge alone")
}

func TestScopeFollowsTheDiscoverySelectors(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c := clientOf(t, api.Config())
	ns := root(t, api, c, "discoverySelectors: [{matchLabels: {scope: in}}]")
	s := newSink(t)
	from, err := kube.New(kube.Options{
		Config: api.Config(), RootNamespace: ns, ConfigMap: "istio", Cluster: "Kubernetes", Metrics: &s.metrics.Source,
	})
	require.NoError(t, err)
	selects, changed := from.Scope()
	require.Nil(t, selects, "nobody knows yet")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- from.Run(ctx, s.take) }()
	defer func() { cancel(); require.NoError(t, <-ended) }()
	<-changed
	selects, changed = from.Scope()
	require.True(t, selects(map[string]string{"scope": "in"}))
	require.False(t, selects(nil))
	configure(t, c, ns, "{}")
	<-changed
	selects, _ = from.Scope()
	require.True(t, selects(nil))
}
