package app

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/trust/ca"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

func TestAgentsAskForPodsOfTheirNode(t *testing.T) {
	identity := func(namespace, account, pod string) ca.Identity {
		return ca.Identity{TrustDomain: "cluster.local", Namespace: namespace, ServiceAccount: account, Pod: pod}
	}
	ztunnel := identity("istio-system", "ztunnel", "ztunnel-1")
	_, err := nodes{func() *state.Snapshot { return nil }}.SameNode(t.Context(), ztunnel, ztunnel)
	require.ErrorContains(t, err, "not known yet")

	var pods []state.Update
	for _, p := range []struct{ namespace, name, account, node string }{
		{"istio-system", "ztunnel-1", "ztunnel", "a"},
		{"shop", "books-1", "books", "a"},
		{"bank", "vault-1", "vault", "b"},
	} {
		m := model.Meta{Kind: kinds.Pod, Namespace: p.namespace, Name: p.name}
		pods = append(pods, state.Update{Key: m.Key(), Objects: []model.Object{
			&model.Workload{Meta: m, ServiceAccount: p.account, Node: p.node},
		}})
	}
	w, _ := state.NewWriter().Apply(pods)
	for _, c := range []struct {
		agent, other ca.Identity
		beside       bool
	}{
		{ztunnel, identity("shop", "books", ""), true},
		{ztunnel, identity("bank", "vault", ""), false},
		{ztunnel, identity("bank", "books", ""), false},
		{identity("istio-system", "ztunnel", "gone"), identity("shop", "books", ""), false},
		{identity("shop", "ztunnel", "books-1"), identity("shop", "books", ""), false},
	} {
		beside, err := nodes{func() *state.Snapshot { return w }}.SameNode(t.Context(), c.agent, c.other)
		require.NoError(t, err)
		require.Equal(t, c.beside, beside, "%v %v", c.agent, c.other)
	}
}

func TestOnlyAccountsThatSomethingRunsAsAreRenewed(t *testing.T) {
	id := func(namespace, account string) ca.Identity {
		return ca.Identity{TrustDomain: "cluster.local", Namespace: namespace, ServiceAccount: account}
	}
	_, err := nodes{func() *state.Snapshot { return nil }}.Runs(id("shop", "books"))
	require.ErrorContains(t, err, "not known yet")
	pod := model.Meta{Kind: kinds.Pod, Namespace: "shop", Name: "books-1"}
	vm := model.Meta{Kind: kinds.WorkloadEntry, Namespace: "shop", Name: "vm"}
	w, _ := state.NewWriter().Apply([]state.Update{
		{Key: pod.Key(), Objects: []model.Object{&model.Workload{Meta: pod, ServiceAccount: "books"}}},
		{Key: vm.Key(), Objects: []model.Object{&model.WorkloadEntry{Meta: vm, Account: "machine"}}},
	})
	for who, want := range map[ca.Identity]bool{
		id("shop", "books"): true, id("shop", "machine"): true, id("shop", "gone"): false, id("bank", "books"): false,
	} {
		runs, err := nodes{func() *state.Snapshot { return w }}.Runs(who)
		require.NoError(t, err)
		require.Equal(t, want, runs, who)
	}
}

// A Pod that has ended keeps its node and its account, and proves neither.
func TestPodsThatHaveEndedAskForNothing(t *testing.T) {
	pod := func(namespace, account string, phase corev1.PodPhase) source.Change {
		return source.Change{
			Key: source.Key{Kind: kinds.Pod, Namespace: namespace, Name: account},
			Object: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
				Spec:       corev1.PodSpec{ServiceAccountName: account, NodeName: "a"},
				Status:     corev1.PodStatus{Phase: phase},
			},
		}
	}
	agent := ca.Identity{Namespace: "istio-system", ServiceAccount: "ztunnel", Pod: "ztunnel"}
	books := ca.Identity{Namespace: "shop", ServiceAccount: "books"}
	r := newRig(t, []source.Change{
		pod("istio-system", "ztunnel", corev1.PodRunning), pod("shop", "books", corev1.PodRunning),
	})
	n := nodes{r.pipeline.Snapshot}
	runs := func(want bool) {
		t.Helper()
		beside, err := n.SameNode(t.Context(), agent, books)
		require.NoError(t, err)
		require.Equal(t, want, beside)
		runs, err := n.Runs(books)
		require.NoError(t, err)
		require.Equal(t, want, runs)
	}
	runs(true)
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		r.deliver(pod("shop", "books", phase))
		runs(false)
		r.deliver(pod("shop", "books", corev1.PodRunning))
		runs(true)
	}
	r.deliver(pod("istio-system", "ztunnel", corev1.PodFailed))
	beside, err := n.SameNode(t.Context(), agent, books)
	require.NoError(t, err)
	require.False(t, beside, "the agent's own Pod has ended")
}

// fixed authenticates everybody alike.
type fixed struct {
	id  serve.Identity
	err error
}

func (f fixed) Screen(context.Context, metadata.MD) error { return nil }

func (f fixed) Authenticate(context.Context, metadata.MD) (serve.Identity, error) { return f.id, f.err }

func TestWhoIsBelievedWithoutProofGetsNoCertificate(t *testing.T) {
	_, err := callers{fixed{}}.Authenticate(t.Context(), nil)
	require.ErrorContains(t, err, "want a service account's token")
	_, err = callers{fixed{err: errors.New("expired")}}.Authenticate(t.Context(), nil)
	require.EqualError(t, err, "expired")
	id, err := callers{fixed{id: serve.Identity{
		TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "books", Pod: "books-1",
	}}}.Authenticate(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, ca.Identity{
		TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "books", Pod: "books-1",
	}, id)
}
