package ca

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

var shared = kubeapi.Shared{Options: kubeapi.Options{NoControllerManager: true}}

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

const longest = time.Minute

// replica is the authority of one process.
type replica struct {
	store  *Store
	holder *Holder
	log    *logged
}

// logged is what was logged.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// startReplica runs a store until the test ends. It maintains the root if it leads.
func startReplica(t *testing.T, client typedcorev1.CoreV1Interface, namespace string, leads bool) *replica {
	t.Helper()
	r := &replica{holder: NewHolder(), log: &logged{}}
	r.store = NewStore(r.holder, StoreOptions{
		Client: client, Namespace: namespace, Overlap: DefaultTTL.Max,
		Metrics: newMetrics(time.Now()), Log: slog.New(slog.NewTextHandler(r.log, nil)), Now: time.Now,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.store.Run(ctx) })
	if leads {
		running.Go(func() { r.store.Maintain(ctx) })
	}
	t.Cleanup(func() { cancel(); running.Wait() })
	return r
}

// await waits until an authority is in use that a condition accepts.
func (r *replica) await(t *testing.T, accepts func(*Authority) bool) *Authority {
	t.Helper()
	timeout := time.After(longest)
	for {
		a, changed, err := r.holder.Get()
		if err == nil && accepts(a) {
			return a
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("no such authority is in use (%v)", err)
		}
	}
}

func anyAuthority(*Authority) bool { return true }

func clientOf(t *testing.T, api *kubeapi.Server) typedcorev1.CoreV1Interface {
	t.Helper()
	client, err := typedcorev1.NewForConfig(api.Config())
	require.NoError(t, err)
	return client
}

func TestReplicasAgreeOnOneRoot(t *testing.T) {
	api := shared.Server(t)
	client := clientOf(t, api)
	for name, prepare := range map[string]func(namespace string){
		"no Secret": func(string) {},
		"an empty Secret": func(namespace string) {
			_, err := client.Secrets(namespace).Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: SelfSigned}, Type: SelfSignedType,
			}, metav1.CreateOptions{})
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := api.Namespace(t, nil)
			prepare(namespace)
			var all []*replica
			for range 4 {
				all = append(all, startReplica(t, client, namespace, true))
			}
			bundle := all[0].await(t, anyAuthority).Bundle()
			for _, r := range all {
				require.Equal(t, string(bundle), string(r.await(t, anyAuthority).Bundle()))
			}
			secret, err := client.Secrets(namespace).Get(t.Context(), SelfSigned, metav1.GetOptions{})
			require.NoError(t, err)
			require.Equal(t, SelfSignedType, secret.Type)
			require.Equal(t, string(bundle), string(secret.Data[rootsKey]))
			for _, key := range []string{certificateKey, privateKey, chainKey, unusedKey} {
				require.Contains(t, secret.Data, key)
			}
		})
	}
}

func TestRemovedRootIsWrittenAgain(t *testing.T) {
	api := shared.Server(t)
	client := clientOf(t, api)
	namespace := api.Namespace(t, nil)
	r := startReplica(t, client, namespace, true)
	bundle := string(r.await(t, anyAuthority).Bundle())
	require.NoError(t, client.Secrets(namespace).Delete(t.Context(), SelfSigned, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		secret, err := client.Secrets(namespace).Get(t.Context(), SelfSigned, metav1.GetOptions{})
		return err == nil && string(secret.Data[rootsKey]) == bundle
	}, longest, time.Millisecond)
}

func TestPluggedInAuthorityTakesPrecedence(t *testing.T) {
	api := shared.Server(t)
	client := clientOf(t, api)
	namespace := api.Namespace(t, nil)
	r := startReplica(t, client, namespace, true)
	self := r.await(t, anyAuthority)

	data, _ := plug(t, time.Now(), nil)
	secret, err := client.Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: Plugged}, Data: data,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	plugged := r.await(t, func(a *Authority) bool { return a != self })
	require.Equal(t, "Acme mesh", plugged.keys.certificate.Subject.CommonName)
	require.True(t, r.log.has("do not verify the new one"), "nobody has its root yet")

	secret.Data[privateKey] = []byte("x")
	secret, err = client.Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.log.has("the certificate authority is invalid") }, longest,
		time.Millisecond)
	require.Same(t, plugged, r.await(t, anyAuthority))
	require.InDelta(t, 1, valueOf(t, r.store.o.Metrics.CA.Rejected.WithLabelValues(Plugged)), 0)
	require.Greater(t, valueOf(t, r.store.o.Metrics.CA.RootExpiry), float64(time.Now().Unix()))
	require.Greater(t, valueOf(t, r.store.o.Metrics.CA.ChainExpiry), float64(time.Now().Unix()))

	next, _ := plug(t, time.Now(), nil)
	next[rootsKey] = append(next[rootsKey], data[rootsKey]...)
	secret.Data = next
	_, err = client.Secrets(namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
	renewed := r.await(t, func(a *Authority) bool { return a != plugged })
	require.Len(t, renewed.keys.roots, 2)

	require.NoError(t, client.Secrets(namespace).Delete(t.Context(), Plugged, metav1.DeleteOptions{}))
	require.Eventually(t, func() bool { return r.log.has("is gone") }, longest, time.Millisecond)
	require.Same(t, renewed, r.await(t, anyAuthority))
}

func TestNoRootIsMadeBesideAnInvalidPlugIn(t *testing.T) {
	api := shared.Server(t)
	client := clientOf(t, api)
	namespace := api.Namespace(t, nil)
	_, err := client.Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: Plugged}, Data: map[string][]byte{certificateKey: []byte("x")},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	r := startReplica(t, client, namespace, false)
	_, err = r.store.reconcile(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.log.has("the certificate authority is invalid") }, longest,
		time.Millisecond)
	_, _, err = r.holder.Get()
	require.ErrorIs(t, err, ErrNotReady)
	_, err = client.Secrets(namespace).Get(t.Context(), SelfSigned, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
}

func TestRootsAreInEachNamespaceInScope(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true}) // it looks at all namespaces
	client := clientOf(t, api)
	holder := NewHolder()
	const name = "roots"
	scope := &selector{label: "mesh", changed: make(chan struct{})}
	metrics := newMetrics(time.Now())
	roots := NewRoots(RootsOptions{
		Holder: holder, Client: client, Interval: time.Millisecond, Metrics: metrics, Log: quiet,
		Name: name, Scope: scope.get,
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := api.Namespace(t, map[string]string{"mesh": "yes"})
	outside := api.Namespace(t, nil)
	var running sync.WaitGroup
	running.Go(func() { roots.Run(ctx) })
	defer running.Wait()
	defer cancel()

	has := func(namespace string, a *Authority) {
		t.Helper()
		require.Eventually(t, func() bool {
			c, err := client.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
			return err == nil && c.Data[RootsKey] == string(a.Bundle())
		}, longest, time.Millisecond)
	}
	first := selfSigned(t, time.Now())
	holder.Set(first)
	has(before, first)
	after := api.Namespace(t, map[string]string{"mesh": "yes"})
	has(after, first)

	require.NoError(t, client.ConfigMaps(before).Delete(ctx, name, metav1.DeleteOptions{}))
	has(before, first)
	edited, err := client.ConfigMaps(after).Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	edited.Data = map[string]string{RootsKey: "mine", "other": "kept"}
	_, err = client.ConfigMaps(after).Update(ctx, edited, metav1.UpdateOptions{})
	require.NoError(t, err)
	has(after, first)

	second := selfSigned(t, time.Now())
	holder.Set(second)
	has(before, second)
	has(after, second)
	_, err = client.ConfigMaps(outside).Get(ctx, name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))

	labelled, err := client.Namespaces().Get(ctx, outside, metav1.GetOptions{})
	require.NoError(t, err)
	labelled.Labels["mesh"] = "yes"
	_, err = client.Namespaces().Update(ctx, labelled, metav1.UpdateOptions{})
	require.NoError(t, err)
	has(outside, second)

	others := api.Namespace(t, map[string]string{"others": "yes"})
	scope.set("others")
	has(others, second)
	has(before, second) // a workload may have it mounted
	_, err = client.ConfigMaps("kube-system").Get(ctx, name, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
	require.Zero(t, valueOf(t, metrics.CA.RootWrites.WithLabelValues("error")))
	require.Positive(t, valueOf(t, metrics.CA.RootWrites.WithLabelValues("written")))

	all := NewRoots(RootsOptions{
		Holder: holder, Client: client, Interval: time.Millisecond, Metrics: metrics, Log: quiet, Name: "all",
	})
	running.Go(func() { all.Run(ctx) })
	unlabelled := api.Namespace(t, nil)
	require.Eventually(t, func() bool {
		_, err := client.ConfigMaps(unlabelled).Get(ctx, "all", metav1.GetOptions{})
		return err == nil
	}, longest, time.Millisecond)
}

// selector selects namespaces with a label.
type selector struct {
	mu      sync.Mutex
	label   string
	changed chan struct{}
}

func (s *selector) get() (func(map[string]string) bool, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	label := s.label
	return func(labels map[string]string) bool { return labels[label] == "yes" }, s.changed
}

func (s *selector) set(label string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.label = label
	close(s.changed)
	s.changed = make(chan struct{})
}

// TestRevokedCertificatesAreInEachNamespace follows the lists of an authority into its ConfigMaps:
// there are none without lists, and they stay as they are while the lists are not known.
func TestRevokedCertificatesAreInEachNamespace(t *testing.T) {
	api := kubeapi.Start(t, kubeapi.Options{NoControllerManager: true}) // it looks at all namespaces
	client := clientOf(t, api)
	holder := NewHolder()
	namespace := api.Namespace(t, nil)
	metrics := newMetrics(time.Now())
	lists := NewRoots(RootsOptions{
		Holder: holder, Client: client, Interval: time.Millisecond, Metrics: metrics, Log: quiet,
		Name: RevokedConfigMap, Key: RevokedKey, Content: (*Authority).Revoked,
	})
	roots := NewRoots(RootsOptions{
		Holder: holder, Client: client, Interval: time.Millisecond, Metrics: metrics, Log: quiet,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { lists.Run(ctx) })
	running.Go(func() { roots.Run(ctx) })
	defer running.Wait()
	defer cancel()
	awaitRoots := func(a *Authority) {
		t.Helper()
		require.Eventually(t, func() bool {
			c, err := client.ConfigMaps(namespace).Get(ctx, RootsConfigMap, metav1.GetOptions{})
			return err == nil && c.Data[RootsKey] == string(a.Bundle())
		}, longest, time.Millisecond)
	}
	has := func(content string) {
		t.Helper()
		require.Eventually(t, func() bool {
			c, err := client.ConfigMaps(namespace).Get(ctx, RevokedConfigMap, metav1.GetOptions{})
			return err == nil && c.Data[RevokedKey] == content
		}, longest, time.Millisecond)
	}

	plain := selfSigned(t, time.Now())
	holder.Set(plain)
	awaitRoots(plain)
	_, err := client.ConfigMaps(namespace).Get(ctx, RevokedConfigMap, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "an authority without lists has no ConfigMaps")

	holder.Set(plain.withRevocations(revocations{text: []byte("lists")}))
	has("lists")
	require.NoError(t, client.ConfigMaps(namespace).Delete(ctx, RevokedConfigMap, metav1.DeleteOptions{}))
	has("lists")
	unknown := selfSigned(t, time.Now()).withRevocations(revocations{refused: true})
	holder.Set(unknown)
	awaitRoots(unknown)
	has("lists")
	holder.Set(plain)
	has("")
	require.Zero(t, valueOf(t, metrics.CA.RootWrites.WithLabelValues("error")))
}
