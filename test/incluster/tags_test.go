package incluster

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// injected and bare are the containers of Pods with a proxy and without one.
var (
	injected = []string{"istio-init", "istio-proxy", "web"}
	bare     = []string{"web"}
)

// tagged starts a control plane, and a namespace that names the tag "prod".
func tagged(t *testing.T) (*cluster, *replica) {
	c := newCluster(t)
	r := c.start(t)
	r.ready(t)
	r.leads(t)
	c.routeInjection(t, r)
	c.namespace(t, "shop", map[string]string{"istio.io/rev": "prod"})
	return c, r
}

// getsIn waits until new Pods of the namespace shop have these containers.
func (c *cluster) getsIn(t *testing.T, want []string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		pod, err := c.pod("shop", "web", nil, nil)
		require.NoError(ct, err)
		require.Equal(ct, want, containersOf(pod))
	})
}

// hasRoots waits until each webhook of a configuration has the roots of the revision's own.
func (c *cluster) hasRoots(t *testing.T, name string) {
	t.Helper()
	bundles := func(ct require.TestingT, name string) (all []string) {
		for _, w := range c.get(ct, "MutatingWebhookConfiguration", "", name).Object["webhooks"].([]any) {
			bundle, _, _ := unstructured.NestedString(w.(map[string]any), "clientConfig", "caBundle")
			all = append(all, bundle)
		}
		return all
	}
	eventually(t, func(ct require.TestingT) {
		own := bundles(ct, "lateen-injector-istio-system")[0]
		require.NotEmpty(ct, own)
		for _, bundle := range bundles(ct, name) {
			require.Equal(ct, own, bundle)
		}
	})
}

// loseRoots lets the first webhook of a configuration have other roots.
func (c *cluster) loseRoots(t *testing.T, name string) {
	o := c.get(t, "MutatingWebhookConfiguration", "", name)
	first := o.Object["webhooks"].([]any)[0].(map[string]any)
	other := base64.StdEncoding.EncodeToString(c.api.Config().CAData)
	require.NoError(t, unstructured.SetNestedField(first, other, "clientConfig", "caBundle"))
	_, err := c.on(o).Update(t.Context(), o, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// TestTagsByLateen: a tag injects, its roots follow, what it must not be is refused, a tag of a
// revision that nobody runs refuses Pods, and a tag that is named stays.
func TestTagsByLateen(t *testing.T) {
	c, r := tagged(t)
	c.getsIn(t, bare)
	code, text := c.lateenSays(t, "tag", "set", "prod", "--revision", "v9")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "there is no revision v9 with a webhook for Pods; want one of default")
	code, text = c.lateenSays(t, "tag", "set", "default", "--revision", "default")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "default is the name of the revision itself")
	require.Contains(t, c.lateenDoes(t, "tag", "list"), "there are no tags")

	text = c.lateenDoes(t, "tag", "set", "prod", "--revision", "default")
	require.Contains(t, text, "the tag prod stands for revision default")
	c.getsIn(t, injected)
	const webhook = "istio-revision-tag-prod"
	c.loseRoots(t, webhook)
	c.hasRoots(t, webhook)
	require.Regexp(t, `(?m)^prod +default +shop$`, c.lateenDoes(t, "tag", "list"))
	require.JSONEq(t, `[{"tag": "prod", "revision": "default", "namespaces": ["shop"]}]`,
		c.lateenDoes(t, "tag", "list", "-o", "json"))

	c.applyManifests(t, "--revision", "canary", "--part", "control-plane")
	code, text = c.lateenSays(t, "tag", "set", "prod", "--revision", "canary")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "the tag prod is that of revision default; want --overwrite to move it to canary")
	code, text = c.lateenSays(t, "tag", "set", "canary", "--revision", "default")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "canary is the name of a revision")
	c.lateenDoes(t, "tag", "set", "prod", "--revision", "canary", "--overwrite")
	eventually(t, func(ct require.TestingT) {
		_, err := c.pod("shop", "web", nil, nil)
		require.ErrorContains(ct, err, "rev.namespace.sidecar-injector.istio.io", "nobody runs it")
	})
	c.lateenDoes(t, "tag", "set", "prod", "--revision", "default", "--overwrite")
	c.getsIn(t, injected)

	code, text = c.lateenSays(t, "tag", "remove", "prod")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "nothing is removed: the tag prod is named by the namespaces shop")
	c.getsIn(t, injected)
	c.lateenDoes(t, "tag", "remove", "prod", "--skip-confirmation")
	c.getsIn(t, bare)
	require.Nil(t, c.find(t, "Service", root, "istiod-revision-tag-prod"))
	code, text = c.lateenSays(t, "tag", "remove", "prod")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "there is no tag prod")
	require.NotContains(t, r.said(), "forbidden")
}

// TestTheRevisionThatATagLeavesGoesOnReading: while Pods have its proxies.
func TestTheRevisionThatATagLeavesGoesOnReading(t *testing.T) {
	c, _ := tagged(t)
	c.applyManifests(t, "--revision", "canary", "--part", "control-plane")
	c.lateenDoes(t, "tag", "set", "prod", "--revision", "default")
	c.getsIn(t, injected)
	pod := podOn("", "shop", "old", "web", nil)
	created, err := c.client.CoreV1().Pods("shop").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, injected, containersOf(created))

	text := c.lateenDoes(t, "tag", "set", "prod", "--revision", "canary", "--overwrite")
	require.Contains(t, text, "revision default goes on reading what names the tag, for the Pods with its proxies (1)")
	require.Regexp(t, `(?m)^prod +canary +default +shop$`, c.lateenDoes(t, "tag", "list"))
	now := int64(0)
	require.NoError(t, c.client.CoreV1().Pods("shop").Delete(t.Context(), "old",
		metav1.DeleteOptions{GracePeriodSeconds: &now}))
	text = c.lateenDoes(t, "tag", "set", "prod", "--revision", "canary")
	require.NotContains(t, text, "goes on")
	require.Regexp(t, `(?m)^prod +canary +shop$`, c.lateenDoes(t, "tag", "list"))
}

// TestTagsByIstioctl: Istio's own istioctl, unchanged, sets, lists, moves and removes tags of
// Lateen's revisions, and the leader keeps the roots of their webhooks.
func TestTagsByIstioctl(t *testing.T) {
	binary := tool.Path(t, "istioctl", "istioctl")
	c, r := tagged(t)
	istioctl := &istioctl{binary: binary, kubeconfig: c.api.Kubeconfig()}
	out := istioctl.run(t, "tag", "set", "prod", "--revision", "default")
	require.Contains(t, out, `Revision tag "prod" created, referencing control plane revision "default"`)
	const webhook = "istio-revision-tag-prod"
	c.routeWebhooks(t, r, webhook) // the port of the test
	c.getsIn(t, injected)
	c.loseRoots(t, webhook)
	c.hasRoots(t, webhook)
	require.Regexp(t, `(?m)^prod +default +shop *$`, istioctl.run(t, "tag", "list"))
	require.Regexp(t, `(?m)^prod +default +shop$`, c.lateenDoes(t, "tag", "list"))

	c.applyManifests(t, "--revision", "canary", "--part", "control-plane")
	out, err := istioctl.try(t, "tag", "set", "prod", "--revision", "canary")
	require.Error(t, err, out)
	istioctl.run(t, "tag", "set", "prod", "--revision", "canary", "--overwrite")
	require.Regexp(t, `(?m)^prod +canary +shop *$`, istioctl.run(t, "tag", "list"))
	c.lateenDoes(t, "tag", "set", "prod", "--revision", "default", "--overwrite")
	require.Regexp(t, `(?m)^prod +default +shop *$`, istioctl.run(t, "tag", "list"))
	c.getsIn(t, injected)

	out = istioctl.run(t, "tag", "generate", "other", "--revision", "canary")
	require.Contains(t, out, "istio-revision-tag-other")
	istioctl.run(t, "tag", "remove", "prod", "-y")
	c.getsIn(t, bare)
	require.Contains(t, c.lateenDoes(t, "tag", "list"), "there are no tags")
}
