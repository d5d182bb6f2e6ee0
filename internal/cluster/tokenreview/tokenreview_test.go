package tokenreview

import (
	"encoding/base64"
	"fmt"
	"os"
	"strings"
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

	expiry := func(token string) time.Time {
		said, ok := claimsOf(token)
		require.True(t, ok)
		require.False(t, said.expires().IsZero())
		return said.expires()
	}
	token := issue("istio-ca", pod)
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
	h := hashOf("a")
	c.accept(h, Account{Namespace: "n"}, now.Add(time.Hour))
	now = now.Add(acceptedTTL - time.Second)
	_, known := c.account(h)
	require.True(t, known)
	now = now.Add(time.Second)
	_, known = c.account(h)
	require.False(t, known, "whatever the token says")

	c.accept(h, Account{Namespace: "n"}, now.Add(time.Second))
	now = now.Add(time.Second)
	_, known = c.account(h)
	require.False(t, known, "the token has expired")

	c.accept(h, Account{}, time.Time{})
	c.refuse(h)
	require.True(t, c.isRefused(h))
	_, known = c.account(h)
	require.False(t, known)
	now = now.Add(refusedTTL)
	require.False(t, c.isRefused(h))
	require.Empty(t, c.accepted.known)
	require.Zero(t, c.accepted.order.Len()+c.refused.order.Len())
}

// A token that the API server has accepted is believed without being read, as long as that is
// remembered.
func TestAcceptedTokensAreNotReadAgain(t *testing.T) {
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	r := &Reviewer{audiences: []string{"istio-ca"}, cache: newCache(clock), now: clock}
	const unreadable = "x"
	require.ErrorIs(t, r.Screen(unreadable), ErrRefused)
	r.cache.accept(hashOf(unreadable), Account{Namespace: "n"}, time.Time{})
	require.NoError(t, r.Screen(unreadable))
	a, err := r.Review(t.Context(), unreadable)
	require.NoError(t, err)
	require.Equal(t, "n", a.Namespace)
	now = now.Add(acceptedTTL)
	require.ErrorIs(t, r.Screen(unreadable), ErrRefused)
}

func TestBadTokensDropNoGoodOnes(t *testing.T) {
	c := newCache(func() time.Time { return time.Unix(1000, 0) })
	good := hashOf("good")
	c.accept(good, Account{Namespace: "n"}, time.Time{})
	for i := range 2 * acceptedSize {
		c.refuse(hashOf(fmt.Sprint(i)))
	}
	_, known := c.account(good)
	require.True(t, known)
	require.Len(t, c.refused.known, refusedSize)
	require.Equal(t, refusedSize, c.refused.order.Len())
	for i := range acceptedSize {
		c.accept(hashOf(fmt.Sprint(i)), Account{}, time.Time{})
	}
	require.Len(t, c.accepted.known, acceptedSize)
	_, known = c.account(good)
	require.False(t, known, "the oldest goes")
	_, known = c.account(hashOf("0"))
	require.True(t, known, "and no other one")
}

func tokenOf(claims string) string {
	return "h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s"
}

func TestExpiryIsReadFromTheToken(t *testing.T) {
	said, ok := claimsOf(tokenOf(`{"exp":7}`))
	require.True(t, ok)
	require.Equal(t, time.Unix(7, 0), said.expires())
	said, ok = claimsOf(tokenOf("{}"))
	require.True(t, ok)
	require.True(t, said.expires().IsZero())
	for _, other := range []string{"", "x", "a.b", tokenOf("7"), tokenOf(`{"exp":"7"}`), "h.!.s",
		tokenOf(`{"x":"` + strings.Repeat("x", maxToken) + `"}`)} {
		_, ok := claimsOf(other)
		require.False(t, ok, other)
	}
}

// The API server is not asked about these tokens: the Reviewer has no client.
func TestScreenRefusesWhatTheTokenItselfSays(t *testing.T) {
	now := time.Unix(10_000, 0)
	clock := func() time.Time { return now }
	r := &Reviewer{audiences: []string{"istio-ca", "other"}, cache: newCache(clock), now: clock}
	for token, want := range map[string]string{
		"":                                  "it is no token of a service account",
		"x":                                 "it is no token of a service account",
		tokenOf(`{"aud":"vault"}`):          `it is for the audience "vault"; want one for istio-ca or other`,
		tokenOf(`{"aud":["a","b"]}`):        `it is for the audience "a, b"; want one for istio-ca or other`,
		tokenOf(`{"exp":9000}`):             "it has expired at 1970-01-01T02:30:00Z",
		tokenOf(`{"aud":{"a":"istio-ca"}}`): "it is no token of a service account",
	} {
		_, err := r.Review(t.Context(), token)
		require.ErrorIs(t, err, ErrRefused)
		require.EqualError(t, r.Screen(token), "the token is refused: "+want)
	}
	for _, token := range []string{
		tokenOf(`{}`), tokenOf(`{"aud":"other","exp":9999}`), tokenOf(`{"aud":["a","istio-ca"],"exp":11000}`),
	} {
		require.NoError(t, r.Screen(token))
		r.cache.refuse(hashOf(token))
		require.ErrorIs(t, r.Screen(token), ErrRefused)
	}
}
