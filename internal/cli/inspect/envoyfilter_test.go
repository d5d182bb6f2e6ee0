package inspect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExplainEnvoyFilter(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/patchz", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if q.Get("kind") != "EnvoyFilter" || q.Get("namespace") != "shop" || q.Get("name") != "limits" {
			http.Error(w, "is not known to the mesh", http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprint(w, `{"kind": "EnvoyFilter", "namespace": "shop", "name": "limits",
			"patches": [
				{"patch": 0, "target": "CLUSTER", "operation": "MERGE", "selected": 2, "proxies": 1, "resources": 3},
				{"patch": 1, "target": "LISTENER", "operation": "REMOVE", "selected": 2}],
			"effects": [{"proxy": "web-0.shop", "proxies": 1, "left": 2, "changes": [{"type": "cds", "name": "a",
				"without": "{\n  \"name\": \"a\"\n}\n", "with": "{\n  \"name\": \"b\"\n}\n"}]}],
			"problems": ["warning: it matches nothing"]}`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	cluster := podsAt{"istiod-0": server.Listener.Addr().String()}

	out, err := output(t, cluster, envoyFilterCommand, "explain", "limits.shop")
	require.NoError(t, err)
	require.Equal(t, lines("EnvoyFilter shop/limits, by istiod-0",
		"PATCH  APPLY TO  OPERATION  FOR        MATCHES                 LEFT OUT",
		"0      CLUSTER   MERGE      2 proxies  3 resources of 1 proxy  0",
		"1      LISTENER  REMOVE     2 proxies  nothing                 0",
		"warning: it matches nothing",
		"",
		"1 proxy, as web-0.shop has it (- without the EnvoyFilter, + with it)",
		"cds a",
		"@@ -1,3 +1,3 @@",
		" {",
		`-  "name": "a"`,
		`+  "name": "b"`,
		" }",
		"and 2 more"), out)

	out, err = output(t, cluster, envoyFilterCommand, "explain", "limits.shop", "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"replica": "istiod-0"`)
	_, err = output(t, cluster, envoyFilterCommand, "explain", "limits")
	require.ErrorContains(t, err, "not known")
}
