package incluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/api/jwks"
)

const authentication = `apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: %s, namespace: default}
spec:
  jwtRules: [{issuer: me, jwksUri: "%s"}]
`

// sharedKeys are the entries of the ConfigMap that replicas share.
func (c *cluster) sharedKeys(t require.TestingT) []jwks.Entry {
	data, _, err := unstructured.NestedStringMap(c.get(t, "ConfigMap", "istio-system", "lateen-jwks").Object, "data")
	require.NoError(t, err)
	entries, bad := jwks.Decode(data)
	require.Empty(t, bad)
	return entries
}

// TestTheLeaderFetchesKeysForAllReplicas takes one replica after the other away, and the issuer.
func TestTheLeaderFetchesKeysForAllReplicas(t *testing.T) {
	t.Setenv("LATEEN_JWKS_PRIVATE_NETWORKS", "127.0.0.0/8")
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, jwks.None)
	}))
	defer issuer.Close()
	const fetches = "pilot_jwks_resolver_network_fetch_success_total"

	c := newCluster(t)
	first := c.start(t)
	first.ready(t)
	first.leads(t)
	second := c.start(t)
	second.ready(t)
	c.apply(t, fmt.Sprintf(authentication, "keys", issuer.URL))
	want := []jwks.Entry{{URI: issuer.URL, Keys: jwks.None}}
	eventually(t, func(ct require.TestingT) { require.Equal(ct, want, c.sharedKeys(ct)) })
	require.Equal(t, 1.0, first.metric(fetches))
	require.Zero(t, second.metric(fetches), "it reads what the leader has written")

	refused := "http://127.0.0.1:1/keys"
	c.apply(t, fmt.Sprintf(authentication, "refused", refused))
	eventually(t, func(ct require.TestingT) {
		told := c.condition(ct, "RequestAuthentication", "refused")
		require.Equal(ct, "False", told.status)
		require.Contains(ct, told.message, "refuses connections; tokens of the issuer are refused")
	})

	issuer.Close()
	first.kill()
	second.leads(t)
	want = append([]jwks.Entry{{URI: refused, Error: "refuses connections"}}, want...)
	require.Equal(t, want, c.sharedKeys(t), "what was fetched stays, though the issuer is away")
	c.apply(t, fmt.Sprintf(authentication, "refused", issuer.URL))
	eventually(t, func(ct require.TestingT) { require.Equal(ct, issuer.URL, c.sharedKeys(ct)[0].URI) })
	require.Equal(t, jwks.None, c.sharedKeys(t)[0].Keys)
	for _, r := range []*replica{first, second} {
		require.NotContains(t, r.said(), "forbidden", "all that it does, it may do")
	}
}
