package authz_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/translate/authz"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
)

func TestInputsAreMemoKeys(t *testing.T) { translatetest.RequireInput(t, authz.Input{}) }

func TestEqualInputsHaveEqualBytes(t *testing.T) {
	text, err := os.ReadFile("testdata/callers.in.yaml")
	require.NoError(t, err)
	of := func() []byte {
		in := inputOf(t, text)
		body, err := pb.Marshal(tcpChain(authz.TCP(in)))
		require.NoError(t, err)
		more, err := pb.Marshal(httpChain(authz.HTTP(in)))
		require.NoError(t, err)
		return append(body, more...)
	}
	require.Equal(t, of(), of())
}
