package kube_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	networkingapi "istio.io/api/networking/v1"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	securityv1 "istio.io/client-go/pkg/apis/security/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source/kube"
)

// tagged returns the metadata of an object that makes a tag.
func tagged(object, tag, revision string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: object, Labels: map[string]string{"istio.io/tag": tag, "istio.io/rev": revision}}
}

// tagWebhook makes the webhook of a tag stand for a revision.
func (c cluster) tagWebhook(t *testing.T, tag, revision string) {
	t.Helper()
	webhooks := c.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := webhooks.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: tagged(tag, tag, revision),
	}, metav1.CreateOptions{})
	if err == nil {
		t.Cleanup(func() { _ = webhooks.Delete(context.Background(), tag, metav1.DeleteOptions{}) })
	} else {
		_, err = webhooks.Patch(t.Context(), tag, types.MergePatchType, ofRevision(revision), metav1.PatchOptions{})
	}
	require.NoError(t, err)
}

// ofRevision is a patch of the label istio.io/rev.
func ofRevision(name string) []byte {
	return fmt.Appendf(nil, `{"metadata":{"labels":{"istio.io/rev":%q}}}`, name)
}

// tagService makes the Service of a tag stand for a revision.
func (c cluster) tagService(t *testing.T, namespace, tag, revision string) {
	t.Helper()
	o := service("tag-" + tag)
	o.ObjectMeta = tagged(o.Name, tag, revision)
	_, err := c.CoreV1().Services(namespace).Create(t.Context(), o, metav1.CreateOptions{})
	if err != nil {
		_, err = c.CoreV1().Services(namespace).Patch(
			t.Context(), o.Name, types.MergePatchType, ofRevision(revision), metav1.PatchOptions{},
		)
	}
	require.NoError(t, err)
}

// labelled creates objects of several kinds with a label istio.io/rev.
func (c cluster) labelled(t *testing.T, namespace, name, revision string) {
	t.Helper()
	o := metav1.ObjectMeta{Name: name, Labels: map[string]string{"istio.io/rev": revision}}
	_, err := c.istio.NetworkingV1().Sidecars(namespace).Create(t.Context(),
		&networkingv1.Sidecar{ObjectMeta: o}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.istio.SecurityV1().AuthorizationPolicies(namespace).Create(t.Context(),
		&securityv1.AuthorizationPolicy{ObjectMeta: o}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.istio.NetworkingV1().DestinationRules(namespace).Create(t.Context(), &networkingv1.DestinationRule{
		ObjectMeta: o, Spec: networkingapi.DestinationRule{Host: name},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// ofKinds is how many objects labelled makes.
const ofKinds = 3

func (s *sink) named(namespace, name string) (all []kinds.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range maps.Keys(s.objects) {
		if k.Namespace == namespace && k.Name == name {
			all = append(all, k.Kind)
		}
	}
	slices.Sort(all)
	return all
}

// TestATagMovesWithoutAGap: while the webhook and the Service of a tag name two revisions, both
// read what names the tag. Each revision gets or loses it as one event, and nothing else.
func TestATagMovesWithoutAGap(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c := clientOf(t, api.Config())
	ns, home := api.Namespace(t, nil), api.Namespace(t, nil)
	tag := "prod-" + home
	c.labelled(t, ns, "a", tag)
	c.labelled(t, ns, "b", "stable")
	c.tagWebhook(t, tag, "stable")
	c.tagService(t, home, tag, "stable")
	follow := func(revision string) (*sink, func()) {
		s := newSink(t)
		stop := s.start(kube.Options{Config: api.Config(), RootNamespace: home, Revision: revision}, s.take)
		s.awaitSync()
		return s, stop
	}
	stable, stop := follow("stable")
	defer stop()
	canary, stop := follow("canary")
	defer stop()
	require.Len(t, stable.named(ns, "a"), ofKinds, "the first list has what names a tag")
	require.Empty(t, canary.named(ns, "a"))

	stableCount, canaryCount := stable.count(), canary.count()
	c.tagWebhook(t, tag, "canary")
	eventually(t, func() bool { return len(canary.named(ns, "a")) > 0 })
	require.Len(t, canary.named(ns, "a"), ofKinds, "what begins to belong comes as a whole")
	require.Len(t, canary.since(canaryCount, ns), 1)
	require.Empty(t, canary.named(ns, "b"))
	require.Len(t, stable.named(ns, "a"), ofKinds, "the Service still names the first revision")
	require.Empty(t, stable.since(stableCount, ns))

	canaryCount = canary.count()
	c.tagService(t, home, tag, "canary")
	eventually(t, func() bool { return len(stable.named(ns, "a")) < ofKinds })
	require.Empty(t, stable.named(ns, "a"), "and goes as a whole")
	require.Len(t, stable.since(stableCount, ns), 1)
	require.Len(t, stable.named(ns, "b"), ofKinds)
	require.Empty(t, canary.since(canaryCount, ns), "what was there is not delivered again")

	c.labelled(t, ns, "c", tag) // what is watched anew is followed
	eventually(t, func() bool { return len(canary.named(ns, "c")) == ofKinds })
}

// TestATagMovesWhileTheAPIServerIsAway: what happened meanwhile is found, and what was read stays
// in force until then.
func TestATagMovesWhileTheAPIServerIsAway(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c := clientOf(t, api.Config())
	ns, home := api.Namespace(t, nil), api.Namespace(t, nil)
	tag := "away-" + home
	c.labelled(t, ns, "a", tag)
	c.tagWebhook(t, tag, "canary")
	config, gate := gated(api.Config())
	s := run(t, kube.Options{Config: config, RootNamespace: home, Revision: "canary"})
	s.awaitSync()
	require.Len(t, s.named(ns, "a"), ofKinds)
	gate.shut()
	c.tagWebhook(t, tag, "stable")
	require.Len(t, s.named(ns, "a"), ofKinds)
	gate.open()
	eventually(t, func() bool { return len(s.named(ns, "a")) == 0 })
}

// TestTagsOfTheRevisionWithoutAName: its objects say "default".
func TestTagsOfTheRevisionWithoutAName(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c := clientOf(t, api.Config())
	ns, home := api.Namespace(t, nil), api.Namespace(t, nil)
	c.labelled(t, ns, "a", "mine-"+home)
	c.labelled(t, ns, "b", "theirs-"+home)
	c.tagWebhook(t, "mine-"+home, "default")
	c.tagService(t, home, "theirs-"+home, "canary")
	s := run(t, kube.Options{Config: api.Config(), RootNamespace: home})
	s.awaitSync()
	require.Len(t, s.named(ns, "a"), ofKinds)
	require.Empty(t, s.named(ns, "b"))
}
