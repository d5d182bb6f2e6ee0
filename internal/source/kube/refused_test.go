package kube_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source/kube"
)

// rights are those of a user who may read everything, but resources of the names given.
func (c cluster) rights(t *testing.T, user string, without ...string) {
	t.Helper()
	denied := map[string]bool{}
	for _, name := range without {
		denied[name] = true
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}}
	for _, read := range kube.WatchedResources("istio-system") {
		if !denied[read.Resource] {
			role.Rules = append(role.Rules, rbacv1.PolicyRule{
				APIGroups: []string{read.Group}, Verbs: []string{"get", "list", "watch"},
				Resources: []string{read.Resource},
			})
		}
	}
	roles, ctx := c.RbacV1().ClusterRoles(), t.Context()
	_, err := roles.Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = roles.Update(ctx, role, metav1.UpdateOptions{})
		require.NoError(t, err)
		return
	}
	require.NoError(t, err)
	_, err = c.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

func TestForbiddenResourceDelaysSynced(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	c.createAll(t, ns)
	user := "reader-" + ns
	c.rights(t, user, "authorizationpolicies", "nodes", "customresourcedefinitions")
	config := api.Config()
	config.Impersonate.UserName = user
	s := run(t, kube.Options{Config: config})
	const policies, nodes = "watching authorizationpolicies.security.istio.io", "watching nodes"
	eventually(t, func() bool { return s.problem(policies) != "" && s.problem(nodes) != "" })
	require.Contains(t, s.problem(policies), "is forbidden")
	require.Contains(
		t,
		s.problem(policies),
		"nothing is served before it is read; want a ClusterRole that allows the verbs get, list and watch on "+
			"authorizationpolicies.security.istio.io",
	)
	require.False(t, s.isSynced())
	require.Positive(t, s.counter("controller_sync_errors_total"))

	late, services := key(kinds.Service, ns, "late"), c.CoreV1().Services(ns) // what changes meanwhile is known
	_, err := services.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: late.Name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, func() bool { return s.get(late) != nil })
	require.NoError(t, services.Delete(t.Context(), late.Name, metav1.DeleteOptions{}))
	eventually(t, func() bool { return s.get(late) == nil })
	require.False(t, s.isSynced())

	c.rights(t, user, "nodes", "customresourcedefinitions") // without both all goes on
	s.awaitSync()
	eventually(t, func() bool { return s.problem(policies) == "" })
	require.Contains(t, s.problem(nodes), "what depends on it is not in force")
	require.Equal(t, everything, s.in(ns))
	require.NotNil(t, s.get(key(kinds.AuthorizationPolicy, ns, "web")))
}

// An API server that starts answers 404 until it serves a custom resource. Who may not read
// definitions cannot tell that from one that is gone.
func TestUnservedResourceStaysWithoutRightsToDefinitions(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c, ns := clientOf(t, api.Config()), api.Namespace(t, nil)
	c.createAll(t, ns)
	user := "reader-" + ns
	c.rights(t, user, "customresourcedefinitions")
	config := api.Config()
	config.Impersonate.UserName = user
	outage := &notServed{path: "/authorizationpolicies", ended: make(chan struct{})}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		outage.next = next
		return outage
	})
	s := run(t, kube.Options{Config: config})
	s.awaitSync()
	policy := key(kinds.AuthorizationPolicy, ns, "web")
	require.NotNil(t, s.get(policy))

	outage.begin()
	const watching = "watching authorizationpolicies.security.istio.io"
	eventually(t, func() bool { return strings.Contains(s.problem(watching), "the last known state stays in force") })
	require.NotNil(t, s.get(policy))
	outage.end()
	eventually(t, func() bool { return s.problem(watching) == "" })
	require.NotNil(t, s.get(policy))
}

// notServed answers 404 to requests for one resource while it is on.
type notServed struct {
	path string
	next http.RoundTripper

	mu    sync.Mutex
	on    bool
	ended chan struct{} // closed when requests under way end
}

func (n *notServed) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on = true
	close(n.ended)
}

func (n *notServed) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.on, n.ended = false, make(chan struct{})
}

func (n *notServed) RoundTrip(q *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(q.URL.Path, n.path) {
		return n.next.RoundTrip(q)
	}
	n.mu.Lock()
	on, ended := n.on, n.ended
	n.mu.Unlock()
	if on {
		return &http.Response{
			StatusCode: http.StatusNotFound, Status: "404 Not Found", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"text/plain"}}, Request: q,
			Body: io.NopCloser(strings.NewReader("404 page not found\n")),
		}, nil
	}
	ctx, cancel := context.WithCancel(q.Context())
	go func() {
		defer cancel()
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}()
	return n.next.RoundTrip(q.WithContext(ctx))
}

// TestSecretsOfNamedNamespacesNeedNoClusterRole: where the namespaces are named, Roles are enough,
// whether all namespaces are watched at once or not.
func TestSecretsOfNamedNamespacesNeedNoClusterRole(t *testing.T) {
	api := shared.Server(t)
	api.InstallIstioCRDs(t)
	c, ours, theirs := clientOf(t, api.Config()), api.Namespace(t, nil), api.Namespace(t, nil)
	user := "reader-" + ours
	c.rights(t, user, "secrets")
	_, err := c.RbacV1().Roles(ours).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list", "watch"},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = c.RbacV1().RoleBindings(ours).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, namespace := range []string{ours, theirs} {
		_, err := c.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte("k")},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	config := api.Config()
	config.Impersonate.UserName = user
	s := run(t, kube.Options{Config: config, SecretNamespaces: []string{ours, ours}})
	s.awaitSync()
	require.NotNil(t, s.get(key(kinds.Secret, ours, "shop")))
	require.Nil(t, s.get(key(kinds.Secret, theirs, "shop")))
	eventually(t, func() bool { return s.problem("watching secrets") == "" })

	require.NoError(t, c.CoreV1().Secrets(ours).Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	eventually(t, func() bool { return s.get(key(kinds.Secret, ours, "shop")) == nil })
}
