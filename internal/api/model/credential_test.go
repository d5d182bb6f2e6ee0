package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// Printing, logging or encoding a credential never shows its content.
func TestSensitiveTextIsNeverPrinted(t *testing.T) {
	c := &Credential{Pair: &KeyPair{
		Chain: NewSensitive("chain hush"), Key: NewSensitive("key hush"),
	}, Authorities: &Authorities{Certificates: NewSensitive("ca hush")}}
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
	require.NotEqual(t, NewSensitive("a").String(), NewSensitive("b").String())
	require.Equal(t, "key hush", c.Pair.Key.Text())
}

func TestSecretForAuthoritiesServesTwoCredentials(t *testing.T) {
	require.Equal(t, []string{"a"}, CredentialsOf("a"))
	require.Equal(t, []string{"a-cacert", "a"}, CredentialsOf("a-cacert"))
}
