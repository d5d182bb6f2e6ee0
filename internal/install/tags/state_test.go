package tags

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
)

// object returns an object with labels, given as pairs.
func object(kind, name string, labels ...string) unstructured.Unstructured {
	o := unstructured.Unstructured{Object: map[string]any{}}
	o.SetKind(kind)
	o.SetName(name)
	set := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		set[labels[i]] = labels[i+1]
	}
	o.SetLabels(set)
	return o
}

const webhookKind = "MutatingWebhookConfiguration"

// injector is the webhook of a revision.
func injector(revision string) unstructured.Unstructured {
	o := object(webhookKind, "injector-"+revision, "app", "sidecar-injector", "istio.io/rev", revision)
	o.Object["webhooks"] = []any{map[string]any{
		"name": "rev.namespace.sidecar-injector.istio.io", "reinvocationPolicy": "IfNeeded",
		"clientConfig": map[string]any{
			"caBundle": "cm9vdHM=",
			"service":  map[string]any{"name": "istiod-" + revision, "namespace": "mesh", "port": int64(8443)},
		},
	}}
	return o
}

func tagWebhook(tag, revision string) unstructured.Unstructured {
	return object(webhookKind, "istio-revision-tag-"+tag, "istio.io/tag", tag, "istio.io/rev", revision)
}

func tagService(tag, revision string) unstructured.Unstructured {
	return object("Service", "istiod-revision-tag-"+tag, "istio.io/tag", tag, "istio.io/rev", revision)
}

// ofHelm is an object of a release of Helm.
func ofHelm(o unstructured.Unstructured) unstructured.Unstructured {
	o.SetAnnotations(map[string]string{kinds.HelmRelease: "istiod"})
	return o
}

func TestTagsOfACluster(t *testing.T) {
	s := &State{
		Webhooks: []unstructured.Unstructured{
			injector("v1"), injector("v2"), tagWebhook("prod", "v2"), tagWebhook("default", "v1"),
		},
		Services: []unstructured.Unstructured{tagService("prod", "v1"), tagService("old", "v1")},
		Namespaces: []unstructured.Unstructured{
			object("Namespace", "shop", "istio.io/rev", "prod"), object("Namespace", "bank", "istio.io/rev", "prod"),
			object("Namespace", "web", "istio-injection", "enabled", "istio.io/rev", "prod"),
			object("Namespace", "out", "istio-injection", "disabled", "istio.io/rev", "prod"),
			object("Namespace", "direct", "istio.io/rev", "v2"),
		},
	}
	require.Equal(t, []Tag{
		{Name: "default", Revision: "v1", AlsoReadBy: []string{}, Namespaces: []string{"web"}},
		{Name: "old", Revision: "v1", AlsoReadBy: []string{}, Namespaces: []string{}},
		{Name: "prod", Revision: "v2", AlsoReadBy: []string{"v1"}, Namespaces: []string{"bank", "shop"}},
	}, s.All())
	require.Equal(t, []string{"v1", "v2"}, s.Revisions())
	require.Equal(t, []string{"mesh"}, s.Roots())
	require.Len(t, s.ObjectsOf("prod"), 2)
	require.Empty(t, s.ObjectsOf("none"))
	require.Empty(t, (&State{}).All())
}

// TestWishesThatAreRefused: and why.
func TestWishesThatAreRefused(t *testing.T) {
	kept := ofHelm(tagWebhook("kept", "v1"))
	kept.SetAnnotations(map[string]string{kinds.HelmRelease: "istiod", "helm.sh/resource-policy": "keep"})
	s := &State{Webhooks: []unstructured.Unstructured{
		injector("v1"), injector("v2"), injector("default"), tagWebhook("prod", "v1"), ofHelm(tagWebhook("helm", "v1")),
		kept,
	}}
	for _, c := range []struct {
		wish Wish
		want string
	}{
		{Wish{Name: "new", Revision: "v1"}, ""},
		{
			Wish{Name: "new", Revision: "v1", Root: "other"},
			"the revision v1 is in the namespace mesh; want --namespace mesh",
		},
		{Wish{Name: "prod", Revision: "v1"}, ""},
		{Wish{Name: "prod", Revision: "v2", Overwrite: true}, ""},
		{Wish{Name: "prod", Revision: "v2"}, "the tag prod is that of revision v1; want --overwrite to move it to v2"},
		{
			Wish{Name: "helm", Revision: "v2", Overwrite: true},
			"the tag helm belongs to the Helm release istiod, which removes it with itself",
		},
		{Wish{Name: "kept", Revision: "v2", Overwrite: true}, ""},
		{Wish{Name: "new", Revision: "v3"}, "there is no revision v3 with a webhook for Pods; want one of default, v1"},
		{Wish{Name: "v1", Revision: "v1"}, "v1 is the name of the revision itself"},
		{Wish{Name: "v2", Revision: "v1", Overwrite: true}, "v2 is the name of a revision"},
		{Wish{Name: "default", Revision: "v1"}, "default is the name of a revision"},
	} {
		c.wish.Root = cmp.Or(c.wish.Root, "mesh")
		err := s.Check(c.wish)
		if c.want == "" {
			require.NoError(t, err, "%+v", c.wish)
			continue
		}
		require.ErrorContains(t, err, c.want)
	}
	err := (&State{}).Check(Wish{Name: "a", Revision: "v1"})
	require.ErrorContains(t, err, "want lateen install --revision v1 first")
}

// TestATagAsksWhereItsRevisionDoes: at the same address, by the same roots, and its Service leads
// to the same Pods.
func TestATagAsksWhereItsRevisionDoes(t *testing.T) {
	service := object("Service", "istiod-v2", "app", "istiod", "istio.io/rev", "v2")
	service.Object["spec"] = map[string]any{
		"selector": map[string]any{"app": "istiod", "istio.io/rev": "v2"}, "clusterIP": "10.0.0.1",
		"ports": []any{map[string]any{"name": "https-dns", "port": int64(15012), "nodePort": int64(30000)}},
	}
	s := &State{
		Webhooks: []unstructured.Unstructured{injector("v1"), injector("v2")},
		Services: []unstructured.Unstructured{service},
	}
	for name, webhooks := range map[string]int{"prod": 2, "default": 4} {
		made, err := s.Make(Wish{Name: name, Revision: "v2", Root: "mesh"})
		require.NoError(t, err)
		require.Equal(t, "istio-revision-tag-"+name+"-mesh", made.Webhook.GetName())
		require.Equal(t, name, made.Webhook.GetLabels()["istio.io/tag"])
		require.Equal(t, "v2", made.Webhook.GetLabels()["istio.io/rev"])
		hooks := webhooksOf(made.Webhook)
		require.Len(t, hooks, webhooks)
		for _, hook := range hooks {
			require.Equal(t, webhooksOf(&s.Webhooks[1])[0]["clientConfig"], hook["clientConfig"])
			require.Equal(t, "IfNeeded", hook["reinvocationPolicy"])
		}
		require.Equal(t, "istiod-revision-tag-"+name, made.Service.GetName())
		ports, _, _ := unstructured.NestedSlice(made.Service.Object, "spec", "ports")
		require.Equal(t, []any{map[string]any{"name": "https-dns", "port": int64(15012)}}, ports)
	}
	made, err := s.Make(Wish{Name: "default", Revision: "v2", Root: "istio-system", AllNamespaces: true})
	require.NoError(t, err)
	require.Equal(t, "istio-revision-tag-default", made.Webhook.GetName())
	require.Len(t, webhooksOf(made.Webhook), 5)
}

// TestAMovedTagIsThatOfTheWish: after any moves, a tag is that of its last one, and while its
// Service stays behind, the revision that it leaves reads too.
func TestAMovedTagIsThatOfTheWish(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := &State{Webhooks: []unstructured.Unstructured{injector("v1"), injector("v2"), injector("v3")}}
		revisions := rapid.SampledFrom([]string{"v1", "v2", "v3"})
		service := ""
		for range rapid.IntRange(1, 8).Draw(r, "moves") {
			to := revisions.Draw(r, "revision")
			require.NoError(r, s.Check(Wish{Name: "prod", Revision: to, Root: "mesh", Overwrite: true}))
			isTag := func(o unstructured.Unstructured) bool { return o.GetLabels()["istio.io/tag"] != "" }
			s.Webhooks = append(slices.DeleteFunc(s.Webhooks, isTag), tagWebhook("prod", to))
			if rapid.Bool().Draw(r, "nobody is left behind") || service == "" {
				service = to
			}
			s.Services = []unstructured.Unstructured{tagService("prod", service)}
			tag, exists := s.Get("prod")
			require.True(r, exists)
			require.Equal(r, to, tag.Revision)
			require.Equal(r, service != to, slices.Contains(tag.AlsoReadBy, service))
		}
	})
}
