package admin

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// TestCensusIsCountedOncePerSnapshot: however many ask, a snapshot is counted once, and before the
// first one the page says so.
func TestCensusIsCountedOncePerSnapshot(t *testing.T) {
	var present *state.Snapshot
	m := MeshOf(nil)
	m.Snapshot = func() *state.Snapshot { return present }
	handler := NewHandler(Options{Mesh: m, Gatherer: prometheus.NewRegistry()})
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://localhost/debug/census", nil)
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	early := ask()
	require.Equal(t, http.StatusServiceUnavailable, early.Code)
	require.Contains(t, early.Body.String(), "no objects have been read yet")

	writer := state.NewWriter()
	for n, root := range []string{"istio-system", "mesh-root"} {
		mesh := model.DefaultMesh()
		mesh.RootNamespace = root
		key := source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"}
		snapshot, _ := writer.Apply([]state.Update{{Key: key, Objects: []model.Object{&mesh}}})
		present = snapshot
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { _ = ask() })
		}
		all.Wait()
		answer := ask()
		require.Equal(t, http.StatusOK, answer.Code)
		require.Contains(t, answer.Body.String(), `"rootNamespace": "`+root+`"`)
		require.Equal(t, n+1, m.census.counts)
	}
}

// MeshOf is a mesh with a generation, which may be nil, and problems.
func MeshOf(w *state.Snapshot, problems ...source.Problem) *Mesh {
	return &Mesh{
		Snapshot: func() *state.Snapshot { return w },
		Problems: func() []source.Problem { return problems },
		Events:   func() map[string]uint64 { return nil },
	}
}
