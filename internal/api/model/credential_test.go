package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever prints, logs or encodes a credential, what is in it does not come out.
func TestHiddenIsNeverPrinted(t *testing.T) {
	c := &Credential{Pair: &KeyPair{Chain: Hidden("chain hush"), Key: Hidden("key hush")}, Authorities: &Authorities{Certificates: Hidden("ca hush")}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb, *c.Pair, *c.Authorities, c.Pair.Key)
	}
	text, err := json.Marshal(c)
	require.NoError(t, err)
	out.Write(text)
	slog.New(slog.NewTextHandler(&out, nil)).Info("log", "key", c.Pair.Key, "pair", *c.Pair)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("log", "key", c.Pair.Key, "credential", c)
	require.NotContains(t, out.String(), "hush")
	require.NotContains(t, out.String(), fmt.Sprintf("%x", "hush"))
	require.NotEqual(t, Hidden("a").String(), Hidden("b").String())
	require.Equal(t, "key hush", c.Pair.Key.Text())
}

func TestSecretForAuthoritiesServesTwoCredentials(t *testing.T) {
	require.Equal(t, []string{"a"}, CredentialsOf("a"))
	require.Equal(t, []string{"a-cacert", "a"}, CredentialsOf("a-cacert"))
}
