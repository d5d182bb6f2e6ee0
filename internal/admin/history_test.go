package admin_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin"
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// pastOf remembers nothing but a state without resources.
type pastOf struct{ asked *page.HistoryQuestion }

func (p pastOf) Select(q page.HistoryQuestion) (*page.History, error) {
	*p.asked = q
	return &page.History{}, nil
}

func (pastOf) StateAt(_ serve.Client, at time.Time) (resource.State, []string, error) {
	if at.Before(connectedAt) {
		return resource.State{}, nil, errors.New("nothing is remembered of before")
	}
	return resource.NewState(1), []string{"eds large"}, nil
}

func (pastOf) Blame(q page.BlameQuestion) (*page.Blame, error) {
	return &page.Blame{Type: q.Type, Name: q.Name}, nil
}

func (pastOf) Difference(q page.DiffQuestion) (*page.ConfigDiff, error) {
	return &page.ConfigDiff{From: q.From, To: q.To}, nil
}

func (pastOf) Restoration(q page.HistoryQuestion) (*page.Restoration, error) {
	return &page.Restoration{At: q.Since}, nil
}

func (pastOf) Cost(page.CostQuestion) (*page.Cost, error) { return &page.Cost{}, nil }

// remembering returns a handler of one proxy and a past.
func remembering(t *testing.T, past admin.History) http.Handler {
	t.Helper()
	m := observe.New(observe.Build{Version: "1.2.3", Start: connectedAt, Now: func() time.Time { return connectedAt }})
	mesh := admin.MeshOf(state.NewWriter().Snapshot())
	mesh.History = past
	return admin.NewHandler(admin.Options{
		Gatherer: m.Registry, Fleet: fleet([]serve.Client{reviews(t)}), Mesh: mesh, Ready: func() error { return nil },
	})
}

// TestConfigDumpOfATime: what the proxy had then, and what of that is not remembered.
func TestConfigDumpOfATime(t *testing.T) {
	h := remembering(t, pastOf{})
	dump := "/debug/config_dump?proxyID=reviews-v1-0.default"
	code, body := get(h, dump)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "inbound")
	require.NotContains(t, body, page.Forgotten)
	code, body = get(h, dump+"&at="+url.QueryEscape(connectedAt.Format(time.RFC3339)))
	require.Equal(t, http.StatusOK, code, body)
	require.NotContains(t, body, "inbound")
	require.Contains(t, body, "eds large")
	for at, want := range map[string]int{
		connectedAt.Add(-time.Hour).Format(time.RFC3339): http.StatusNotFound, "noon": http.StatusBadRequest,
	} {
		code, _ = get(h, dump+"&at="+url.QueryEscape(at))
		require.Equal(t, want, code)
	}
	code, _ = get(remembering(t, nil), dump+"&at=2026-11-30T14:00:00Z")
	require.Equal(t, http.StatusServiceUnavailable, code)
}

// TestQuestionsAboutThePast: each is understood as it was asked, and within bounds.
func TestQuestionsAboutThePast(t *testing.T) {
	var asked page.HistoryQuestion
	h := remembering(t, pastOf{&asked})
	at := connectedAt.UTC()
	q := page.HistoryQuestion{
		Since: at, Until: at.Add(time.Hour), Proxy: "a.b", Resource: "c", Limit: 7,
		Object: page.ObjectQuestion{Kind: "Service", Namespace: "d", Name: "e"},
	}
	getJSON(t, h, "/debug/historyz?"+q.Query().Encode(), &page.History{})
	require.Equal(t, q, asked)
	getJSON(t, h, "/debug/historyz?limit=100000", &page.History{})
	require.Equal(t, page.HistoryQuestion{Limit: 1000}, asked)

	var blame page.Blame
	getJSON(t, h, "/debug/blamez?"+page.BlameQuestion{Proxy: "a.b", Type: "cds", Name: "c"}.Query().Encode(), &blame)
	require.Equal(t, page.Blame{Type: "cds", Name: "c"}, blame)
	var diff page.ConfigDiff
	getJSON(t, h, "/debug/diffz?"+page.DiffQuestion{From: at, To: q.Until}.Query().Encode(), &diff)
	require.Equal(t, page.ConfigDiff{From: at, To: q.Until}, diff)
	var earlier page.Restoration
	getJSON(t, h, "/debug/restorez?"+q.Query().Encode(), &earlier)
	require.Equal(t, at, earlier.At)
	getJSON(t, h, "/debug/costz?by=object", &page.Cost{})
	code, body := get(h, "/debug/costz?by=node")
	require.Equal(t, http.StatusBadRequest, code)
	require.Contains(t, body, "want namespace or object")
	for _, name := range []string{"historyz", "blamez", "diffz", "restorez", "costz"} {
		code, _ = get(remembering(t, nil), "/debug/"+name)
		require.Equal(t, http.StatusServiceUnavailable, code, name)
	}
}
