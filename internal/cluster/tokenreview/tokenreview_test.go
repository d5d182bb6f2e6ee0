package tokenreview

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

var shared kubeapi.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

func TestTokensOfPodsAreTakenForTheirAudienceAlone(t *testing.T) {
	api := shared.Server(t)
	client, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	ns := api.Namespace(t, nil)
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	issue := func(audience string, pod *corev1.Pod) string {
		r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{audience}}}
		if pod != nil {
			r.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
				Kind:       "Pod",
				APIVersion: "v1",
				Name:       pod.Name,
				UID:        pod.UID,
			}
		}
		issued, err := client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default", r,
			metav1.CreateOptions{})
		require.NoError(t, err)
		return issued.Status.Token
	}
	r, err := New(api.Config(), []string{"other", "istio-ca"})
	require.NoError(t, err)

	token := issue("istio-ca", pod)
	require.False(t, expiry(token).IsZero())
	for range 2 { // the second is remembered
		a, err := r.Review(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, Account{Namespace: ns, ServiceAccount: "default", Pod: "web", Expires: expiry(token)}, a)
	}
	unbound := issue("istio-ca", nil)
	a, err := r.Review(t.Context(), unbound)
	require.NoError(t, err)
	require.Equal(t, Account{Namespace: ns, ServiceAccount: "default", Expires: expiry(unbound)}, a)

	var together errgroup.Group // as proxies come after a restart
	for range 4 {
		token := issue("istio-ca", pod)
		together.Go(func() error {
			_, err := r.Review(t.Context(), token)
			return err
		})
	}
	require.NoError(t, together.Wait())

	for _, bad := range []string{issue("vault", pod), token + "x", "", "x"} {
		_, err := r.Review(t.Context(), bad)
		require.ErrorIs(t, err, ErrRefused)
	}
}

func TestAnswersAreRememberedForAWhile(t *testing.T) {
	now := time.Unix(1000, 0)
	c := newCache(func() time.Time { return now })
	hash := sha256.Sum256([]byte("a"))
	c.put(hash, Account{Namespace: "n"}, now.Add(time.Hour))
	now = now.Add(acceptedTTL - time.Second)
	_, _, known := c.get(hash)
	require.True(t, known)
	now = now.Add(time.Second)
	_, _, known = c.get(hash)
	require.False(t, known, "whatever the token says")

	c.put(hash, Account{Namespace: "n"}, now.Add(time.Second))
	now = now.Add(time.Second)
	_, _, known = c.get(hash)
	require.False(t, known, "the token has expired")

	c.refuse(hash)
	_, refused, known := c.get(hash)
	require.True(t, known && refused)
	for i := range cacheSize + 1 {
		c.put(sha256.Sum256(fmt.Append(nil, i)), Account{}, time.Time{})
	}
	require.LessOrEqual(t, len(c.answers), cacheSize)
}

func TestExpiryIsReadFromTheToken(t *testing.T) {
	claims := func(s string) string { return "h." + base64.RawURLEncoding.EncodeToString([]byte(s)) + ".s" }
	require.Equal(t, time.Unix(7, 0), expiry(claims(`{"exp":7}`)))
	for _, other := range []string{"", "x", claims("{}"), claims("7"), claims(`{"exp":"7"}`)} {
		require.True(t, expiry(other).IsZero(), other)
	}
}
