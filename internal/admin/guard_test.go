package admin_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin"
)

func TestDebugPagesAnswerNoForeignWebPage(t *testing.T) {
	h := admin.NewHandler(admin.Options{
		Gatherer: prometheus.NewRegistry(),
		Fleet:    fleet(nil),
		Mesh:     admin.MeshOf(nil),
		Ready:    func() error { return nil },
		Hosts:    []string{"istiod.istio-system.svc"},
	})
	for _, c := range []struct {
		host, header, value string
		code                int
	}{
		{"localhost:15014", "", "", http.StatusOK},
		{"LOCALHOST", "", "", http.StatusOK},
		{"127.0.0.1:15014", "", "", http.StatusOK},
		{"[::1]:15014", "", "", http.StatusOK},
		{"[::1]", "", "", http.StatusOK},
		{"10.0.0.7:15014", "", "", http.StatusOK},
		{"istiod.istio-system.svc:15014", "", "", http.StatusOK},
		{"rebound.example.com:15014", "", "", http.StatusForbidden},
		{"localhost.example.com", "", "", http.StatusForbidden},
		{"istiod.istio-system.svc.example.com", "", "", http.StatusForbidden},
		{"127.0.0.1.example.com", "", "", http.StatusForbidden},
		{"", "", "", http.StatusForbidden},
		{"localhost:15014", "Origin", "http://localhost:15014", http.StatusOK},
		{"localhost:15014", "Origin", "http://localhost:8080", http.StatusForbidden},
		{"localhost:15014", "Origin", "https://example.com", http.StatusForbidden},
		{"localhost:15014", "Origin", "null", http.StatusForbidden},
		{"localhost:15014", "Sec-Fetch-Site", "none", http.StatusOK},
		{"localhost:15014", "Sec-Fetch-Site", "same-origin", http.StatusOK},
		{"localhost:15014", "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		{"localhost:15014", "Sec-Fetch-Site", "same-site", http.StatusForbidden},
	} {
		for _, path := range []string{"/debug/list", "/debug/syncz", "/debug/connections", "/debug/problems"} {
			r := request(http.MethodGet, path)
			r.Host = c.host
			if c.header != "" {
				r.Header.Set(c.header, c.value)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			require.Equal(t, c.code, w.Code, "%s: %+v: %s", path, c, w.Body)
		}
	}
}

// ENABLE_DEBUG_ON_HTTP=false leaves the rest of the port.
func TestDebugPagesMayBeClosed(t *testing.T) {
	h := admin.NewHandler(admin.Options{
		Gatherer: prometheus.NewRegistry(),
		Fleet:    fleet(nil),
		Mesh:     admin.MeshOf(nil),
		Ready:    func() error { return nil },
		NoPages:  true,
	})
	for path, code := range map[string]int{
		"/debug/syncz": http.StatusForbidden, "/debug/list": http.StatusForbidden,
		"/metrics": http.StatusOK, "/ready": http.StatusOK, "/version": http.StatusOK,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(http.MethodGet, path))
		require.Equal(t, code, w.Code, path)
	}
}

func TestDebugPagesAreOnlyRead(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions} {
		for _, path := range []string{"/debug/list", "/debug/syncz", "/debug/config_dump"} {
			w := httptest.NewRecorder()
			handler().ServeHTTP(w, request(method, path))
			require.Equal(t, http.StatusMethodNotAllowed, w.Code, "%s %s", method, path)
		}
	}
}
