package app

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
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
