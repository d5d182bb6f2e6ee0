package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// mostGenerations is how many generations are shown at most, and how many if nobody says.
const mostGenerations = 1000

// ErrNotNow is the error of an answer while it is not known yet what was published last.
var ErrNotNow = errors.New("what was published last is not remembered yet: ask again")

// History is what a control plane remembers. Its errors are for people, but for ErrNotNow.
type History interface {
	// Select returns the generations that are asked for.
	Select(page.HistoryQuestion) (*page.History, error)
	// StateAt returns what a proxy had at a time, and the resources of that, as "TYPE NAME", whose
	// content is not remembered.
	StateAt(serve.Client, time.Time) (was resource.State, forgotten []string, err error)
	// Blame says what made a resource what it is.
	Blame(page.BlameQuestion) (*page.Blame, error)
	// Difference says in what the configuration of a proxy differs between two times.
	Difference(page.DiffQuestion) (*page.ConfigDiff, error)
	// Restoration returns what objects were at HistoryQuestion.Since.
	Restoration(page.HistoryQuestion) (*page.Restoration, error)
	// Cost returns what changes have cost.
	Cost(page.CostQuestion) (*page.Cost, error)
}

// remembers tells whether there is something to ask for.
func (m *Mesh) remembers() bool { return m.Snapshot() != nil && m.History != nil }

// history answers /debug/historyz.
func (m *Mesh) history(query url.Values) (any, error) {
	if !m.remembers() {
		return nil, errNotReady
	}
	q := page.HistoryQuestionOf(query)
	if q.Limit <= 0 || q.Limit > mostGenerations {
		q.Limit = mostGenerations
	}
	return m.History.Select(q)
}

// blame answers /debug/blamez.
func (m *Mesh) blame(query url.Values) (any, error) {
	if !m.remembers() {
		return nil, errNotReady
	}
	return m.History.Blame(page.BlameQuestionOf(query))
}

// difference answers /debug/diffz.
func (m *Mesh) difference(query url.Values) (any, error) {
	if !m.remembers() {
		return nil, errNotReady
	}
	return m.History.Difference(page.DiffQuestionOf(query))
}

// restoration answers /debug/restorez.
func (m *Mesh) restoration(query url.Values) (any, error) {
	if !m.remembers() {
		return nil, errNotReady
	}
	return m.History.Restoration(page.HistoryQuestionOf(query))
}

// cost answers /debug/costz.
func (m *Mesh) cost(query url.Values) (any, error) {
	if !m.remembers() {
		return nil, errNotReady
	}
	q := page.CostQuestionOf(query)
	if q.By != page.ByNamespace && q.By != page.ByObject {
		return nil, fmt.Errorf("by = %.64q: want %s or %s", q.By, page.ByNamespace, page.ByObject)
	}
	return m.History.Cost(q)
}

// askedTime takes a proxy back to ?at, if that is given, and returns what is not remembered of it.
// It writes an answer and returns false if there is no such past.
func (h handler) askedTime(w http.ResponseWriter, r *http.Request, c *serve.Client) (forgotten []string, ok bool) {
	text := r.URL.Query().Get(page.ConfigAt)
	if text == "" {
		return nil, true
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err != nil:
		http.Error(w, fmt.Sprintf("at = %.64q: want a time as 2026-11-30T14:02:00Z", text), http.StatusBadRequest)
		return nil, false
	case !h.Mesh.remembers():
		http.Error(w, errNotReady.Error(), http.StatusServiceUnavailable)
		return nil, false
	}
	switch c.State, forgotten, err = h.Mesh.History.StateAt(*c, at); {
	case errors.Is(err, ErrNotNow):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusNotFound)
	}
	return forgotten, err == nil
}

// forgottenIn is the part of a config dump that names what is not remembered.
func forgottenIn(forgotten []string) (*anypb.Any, error) {
	names := make([]any, len(forgotten))
	for i, name := range forgotten {
		names[i] = name
	}
	list, err := structpb.NewStruct(map[string]any{page.Forgotten: names})
	if err != nil {
		return nil, err
	}
	return anypb.New(list)
}
