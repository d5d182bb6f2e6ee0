package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// ErrBusy is a question that is not answered while another one is.
var ErrBusy = errors.New("another plan is being made; try again")

// plan answers a page.PlanQuestion to /debug/planz.
func (h handler) plan(w http.ResponseWriter, r *http.Request) {
	var q page.PlanQuestion
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, page.MaxPlanQuestion)).Decode(&q); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			want := fmt.Sprintf("want at most %d bytes of manifests", large.Limit)
			http.Error(w, want, http.StatusRequestEntityTooLarge)
			return
		}
		http.Error(w, "want a question in JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	if h.Mesh.Snapshot() == nil || h.Mesh.Plan == nil {
		http.Error(w, errNotReady.Error(), http.StatusServiceUnavailable)
		return
	}
	switch answer, err := h.Mesh.Plan(r.Context(), q); {
	case errors.Is(err, ErrBusy):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		writeJSON(w, answer)
	}
}
