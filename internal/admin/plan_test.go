package admin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
)

// TestPlansAreBounded: a question that is too large, not JSON or from a web page is not planned,
// and neither is one beside another.
func TestPlansAreBounded(t *testing.T) {
	var asked []page.PlanQuestion
	answer := func(_ context.Context, q page.PlanQuestion) (*page.Plan, error) {
		asked = append(asked, q)
		switch q.Files[0].Content {
		case "busy":
			return nil, admin.ErrBusy
		case "wrong":
			return nil, errors.New("want fewer")
		}
		return &page.Plan{Proxies: 7}, nil
	}
	mesh := admin.MeshOf(state.NewWriter().Snapshot())
	mesh.Plan = answer
	options := admin.Options{Gatherer: prometheus.NewRegistry(), Fleet: fleet(nil), Mesh: mesh}
	h := admin.NewHandler(options)
	ask := func(h http.Handler, question, origin string) (code int, body string) {
		r := request(http.MethodPost, "/debug/planz")
		r.Body = io.NopCloser(strings.NewReader(question))
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	of := func(content string) string { return `{"files": [{"name": "a.yaml", "content": "` + content + `"}]}` }

	code, body := ask(h, of("fine"), "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"proxies": 7`)
	require.Equal(t, []page.PlanQuestion{{Files: []page.PlanFile{{Name: "a.yaml", Content: "fine"}}}}, asked)
	asked = nil
	code, body = ask(h, of("wrong"), "")
	require.Equal(t, http.StatusBadRequest, code)
	require.Equal(t, "want fewer", body)
	code, body = ask(h, of("busy"), "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, admin.ErrBusy.Error(), body)

	asked = nil
	code, body = ask(h, of(strings.Repeat("a", page.MaxPlanQuestion)), "")
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	require.Contains(t, body, "want at most 16777216 bytes")
	code, _ = ask(h, "manifests", "")
	require.Equal(t, http.StatusBadRequest, code)
	code, _ = ask(h, of("fine"), "https://example.com")
	require.Equal(t, http.StatusForbidden, code)
	options.NoPages = true
	code, _ = ask(admin.NewHandler(options), of("fine"), "")
	require.Equal(t, http.StatusForbidden, code)
	require.Empty(t, asked, "nothing of it is planned")
}
