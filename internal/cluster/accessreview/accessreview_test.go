package accessreview

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

var shared kubeapi.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

// The API server says by its Roles whose Secrets an account may read, and for how long the answer
// is cached.
func TestRolesSayWhoMayReadSecrets(t *testing.T) {
	api := shared.Server(t)
	client, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	ns := api.Namespace(t, nil)
	_, err = client.CoreV1().ServiceAccounts(ns).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "gateway"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "gateway-sds"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"list"}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	r, err := New(api.Config())
	require.NoError(t, err)
	now := time.Unix(1000, 0)
	r.cache.now = func() time.Time { return now }
	ask := func(account string) bool {
		may, err := r.MayReadSecrets(t.Context(), ns, account)
		require.NoError(t, err)
		return may
	}

	require.False(t, ask("gateway"), "no RoleBinding yet")
	_, err = client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "gateway-sds"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "gateway-sds"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "gateway"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.False(t, ask("gateway"), "the answer is cached")
	require.Eventually(t, func() bool { // the API server learns of the binding by a watch
		now = now.Add(answerTTL)
		return ask("gateway")
	}, time.Minute, 10*time.Millisecond)
	require.False(t, ask("default"))
	require.NoError(t, client.RbacV1().RoleBindings(ns).Delete(t.Context(), "gateway-sds", metav1.DeleteOptions{}))
	require.True(t, ask("gateway"), "the answer is cached")
	require.Eventually(t, func() bool {
		now = now.Add(answerTTL)
		return !ask("gateway")
	}, time.Minute, 10*time.Millisecond)
}

func TestAnswersAreCachedForAWhileAndBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCache(func() time.Time { return now })
	c.put(account{"shop", "a"}, true)
	c.put(account{"shop", "b"}, false)
	now = now.Add(answerTTL - 1)
	may, known := c.get(account{"shop", "a"})
	require.True(t, may && known)
	may, known = c.get(account{"shop", "b"})
	require.True(t, !may && known)
	_, known = c.get(account{"other", "a"})
	require.False(t, known, "accounts of other namespaces are others")
	now = now.Add(1)
	_, known = c.get(account{"shop", "a"})
	require.False(t, known)

	for i := range cacheSize + 1 {
		c.put(account{"many", fmt.Sprint(i)}, true)
		require.LessOrEqual(t, len(c.answers), cacheSize)
	}
	may, known = c.get(account{"many", fmt.Sprint(cacheSize)})
	require.True(t, may && known, "the newest is there")
	require.NotContains(t, c.answers, account{"shop", "b"}, "expired answers go first")
}
