package status

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

func notUsed(kind kinds.Kind, apiVersion string) source.Problem {
	return source.NotUsed(source.Key{Kind: kind, Namespace: "default", Name: "a"}, apiVersion)
}

// Objects of Istio's kinds that are not in force have the condition. It says why, and goes on
// without rights to list some of them.
func TestObjectsThatAreNotInForceHaveTheCondition(t *testing.T) {
	const path = "/apis/extensions.istio.io/v1alpha1/namespaces/default/wasmplugins/a"
	patches := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/apis/extensions.istio.io/v1alpha1/trafficextensions":
			refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		case r.Method == http.MethodGet && r.URL.Path == path:
			_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"generation": 3}})
		case r.Method == http.MethodPatch && r.URL.Path == path+"/status":
			body, _ := io.ReadAll(r.Body)
			patches <- string(body)
			_, _ = w.Write(body)
		case strings.Contains(r.URL.Path, "/namespaces/"):
			t.Errorf("%s %s", r.Method, r.URL.Path)
		default:
			refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		}
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	api, err := NewAPI(&rest.Config{Host: server.URL, Transport: transport})
	require.NoError(t, err)
	h := &harness{t, NewTracker(), nil, api, nil}
	h.board.Applied(nil)
	resign := h.lead()
	h.board.Problems([]source.Problem{
		{
			Severity: source.Error, Object: source.Key{Kind: kinds.WasmPlugin, Namespace: "default", Name: "a"},
			Message: "has no module",
		},
		notUsed("Gateway.gateway.networking.k8s.io", "gateway.networking.k8s.io/v1"), // another controller's
	}, nil)
	h.board.Applied(nil)
	select {
	case body := <-patches:
		require.Contains(t, body, `"status":"False"`)
		require.Contains(t, body, `"observedGeneration":3`)
		require.Contains(t, body, "has no module")
	case <-time.After(time.Minute):
		require.Fail(t, "no status is written")
	}
	resign()
}
