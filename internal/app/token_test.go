package app

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/lateen-mesh/lateen/internal/cluster/tokenreview"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

func tcp(address string) net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", address)
	return a
}

func TestScreenRefusesWithoutAskingTheAPIServer(t *testing.T) {
	errChecked := errors.New("checked")
	a := ReviewAuthenticator{
		Review: func(context.Context, string) (tokenreview.Account, error) {
			t.Fatal("the API server is asked")
			return tokenreview.Account{}, nil
		},
		Check: func(token string) error {
			if token == "bad" {
				return errChecked
			}
			return nil
		},
	}
	token := func(s string) metadata.MD { return metadata.Pairs("authorization", "Bearer "+s) }
	for _, c := range []struct {
		plaintext PlaintextListener
		at        string
		md        metadata.MD
		want      error
	}{
		{at: "10.0.0.1:15012", want: errNoToken},
		{at: "10.0.0.1:15012", md: metadata.Pairs("authorization", "Basic x"), want: errNoToken},
		{at: "10.0.0.1:15012", md: token("bad"), want: errChecked},
		{at: "10.0.0.1:15012", md: token("good")},
		{
			plaintext: PlaintextListener{Address: tcp("127.0.0.1:15010"), TrustsAll: true},
			at:        "127.0.0.1:15010",
		},
		{
			plaintext: PlaintextListener{Address: tcp("127.0.0.1:15010"), TrustsAll: true},
			at:        "127.0.0.1:15012", want: errNoToken,
		},
		{
			plaintext: PlaintextListener{Address: tcp("127.0.0.1:15010")},
			at:        "127.0.0.1:15010", want: errNoToken,
		},
		{
			plaintext: PlaintextListener{Address: tcp("127.0.0.1:15010")},
			at:        "127.0.0.1:15010", md: token("good"),
		},
		{
			plaintext: PlaintextListener{Address: tcp("0.0.0.0:15010"), TrustsAll: true, RefusesTokens: true},
			at:        "10.0.0.1:15010", md: token("good"), want: errPlaintextToken,
		},
		{
			plaintext: PlaintextListener{Address: tcp("0.0.0.0:15010"), TrustsAll: true, RefusesTokens: true},
			at:        "10.0.0.1:15012", md: token("good"),
		},
	} {
		a.Plaintext = c.plaintext
		ctx := peer.NewContext(t.Context(), &peer.Peer{LocalAddr: tcp(c.at)})
		require.Equal(t, c.want, a.Screen(ctx, c.md), "%+v", c)
		if c.want != nil {
			_, err := a.Authenticate(ctx, c.md)
			require.Equal(t, c.want, err, "%+v", c)
		}
	}
}

func TestTokensOfALocalMeshAreScreened(t *testing.T) {
	a := TokenAuthenticator{Lookup: func(token string) (namespace, account, pod string, known bool) {
		return "n", "s", "p", token == "good"
	}}
	require.NoError(t, a.Screen(t.Context(), metadata.Pairs("authorization", "Bearer good")))
	require.Error(t, a.Screen(t.Context(), metadata.Pairs("authorization", "Bearer bad")))
	id, err := a.Authenticate(t.Context(), metadata.Pairs("authorization", "Bearer good"))
	require.NoError(t, err)
	require.Equal(t, serve.Identity{Namespace: "n", ServiceAccount: "s", Pod: "p"}, id)
}
