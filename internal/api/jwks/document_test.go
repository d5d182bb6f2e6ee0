package jwks_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

func TestEntriesComeBackFromTheirConfigMap(t *testing.T) {
	entries := []jwks.Entry{
		{URI: "https://a.test/keys", Keys: jwks.None},
		{URI: "https://b.test/keys?x=1", Error: `answers with "x"`},
		{URI: "https://c.test/" + strings.Repeat("c", 2000)},
	}
	back, bad := jwks.Decode(jwks.Encode(entries))
	require.Empty(t, bad)
	require.Equal(t, entries, back)
}

func TestAnEntryUnderAnotherNameIsRefused(t *testing.T) {
	data := jwks.Encode([]jwks.Entry{{URI: "https://a.test/keys", Keys: jwks.None}})
	for name, text := range data {
		data["other.json"] = text
		data[name] = strings.ReplaceAll(text, "P-256", "P-384")
	}
	entries, bad := jwks.Decode(data)
	require.Empty(t, entries)
	require.Len(t, bad, 2)
	require.ErrorContains(t, bad["other.json"], "is not the name")
}
