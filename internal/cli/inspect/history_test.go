package inspect

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/admin/page"
)

// historyServer answers as a replica that remembers one change.
func historyServer(t *testing.T, g page.Generation, asked *page.HistoryQuestion) string {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/historyz", func(w http.ResponseWriter, r *http.Request) {
		*asked = page.HistoryQuestionOf(r.URL.Query())
		assertEncodes(t, w, page.History{Generations: []page.Generation{g}, Since: g.At.Add(-time.Hour)})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func assertEncodes(t *testing.T, w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		t.Error(err)
	}
}

// TestHistoryIsOfAllReplicas: the newest first, with who wrote the object and how long it took.
func TestHistoryIsOfAllReplicas(t *testing.T) {
	at := time.Date(2026, 11, 30, 14, 2, 0, 0, time.Local)
	older := page.Generation{Generation: 7, At: at, Causes: []page.Cause{
		{
			Kind: "VirtualService", Namespace: "shop", Name: "checkout", Verb: page.Changes,
			Manager: "argocd", Written: at,
			Fields: []page.FieldChange{
				{Path: "spec.http[0].timeout", Before: `"3s"`, After: `"30ms"`}, {Path: "spec.hosts[1]", After: `"x"`},
			},
			MoreFields: 2,
		},
		{Kind: "Service", Namespace: "shop", Name: "checkout", Verb: page.Created},
	}, Groups: []page.Group{
		{Classes: []uint64{1}, Resources: []page.ChangedName{{Type: "vhds", Name: "80/checkout", Verb: page.Changes}}},
		{Classes: []uint64{2}, Resources: []page.ChangedName{
			{Type: "vhds", Name: "80/checkout", Verb: page.Changes, Before: "other"},
		}, MoreResources: 3},
	},
		Appeared: []string{"warning: it is short"},
		Delivery: &page.Delivery{Proxies: 12, Refused: 1, Bytes: 4300, Half: 0.0101, Most: 0.02, All: 0.0353}}
	newer := page.Generation{Generation: 3, At: at.Add(time.Minute), Causes: []page.Cause{
		{Kind: "Namespace", Name: "shop", Verb: page.Deleted, Origin: "all.yaml:7"},
	}}
	var asked page.HistoryQuestion
	cluster := podsAt{
		"istiod-0": historyServer(t, older, &asked), "istiod-1": historyServer(t, newer, &page.HistoryQuestion{}),
	}

	out, err := output(t, cluster, historyCommand, "--object", "VirtualService/shop/checkout", "--limit", "9")
	require.NoError(t, err)
	require.Equal(t, page.HistoryQuestion{
		Object: page.ObjectQuestion{Kind: "VirtualService", Namespace: "shop", Name: "checkout"}, Limit: 9,
	}, asked)
	require.Equal(t, lines(
		"TIME             CAUSE                                             BY          PROXIES  TOOK    REFUSED",
		"Nov 30 14:03:00  Namespace shop deleted                            all.yaml:7  0",
		"Nov 30 14:02:00  VirtualService shop/checkout changed, and 1 more  argocd      12       35.3ms  1",
		"nothing is remembered of before 2026-11-30 13:03:00"), out)

	out, err = output(t, cluster, historyCommand, "--details", "--limit", "2")
	require.NoError(t, err)
	require.Contains(t, out, lines("2026-11-30 14:02:00  generation 7 of istiod-0",
		"  VirtualService shop/checkout changed, by argocd at 14:02:00",
		`    ~ spec.http[0].timeout: "3s" → "30ms"`,
		`    + spec.hosts[1]: "x"`,
		"    and 2 more fields",
		"  Service shop/checkout created",
		"  new: warning: it is short",
		"  → vhds 80/checkout changed",
		"  → and 3 more resources",
		"  12 proxies, 4300 bytes; half had it after 10.1ms, 90 % after 20ms, all after 35.3ms; 1 refused something"))

	out, err = output(t, cluster, historyCommand, "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"replica": "istiod-1"`)
	for flag, want := range map[string]string{
		"--since=never": "want a duration", "--object=web": "want KIND/NAMESPACE/NAME", "--limit=0": "from 1 to 1000",
		"--limit=1001": "from 1 to 1000", "--object=Deploymint/a/b": "is no kind",
		"--until=25:00": "want a duration", "--object=A//b": "want KIND/NAMESPACE/NAME",
	} {
		_, err = output(t, cluster, historyCommand, flag)
		require.ErrorContains(t, err, want, flag)
	}
}

func TestTimesOfFlags(t *testing.T) {
	now := time.Date(2026, 11, 30, 14, 30, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"":                     {},
		"90m":                  now.Add(-90 * time.Minute),
		"14:02":                time.Date(2026, 11, 30, 14, 2, 0, 0, time.UTC),
		"14:30":                time.Date(2026, 11, 30, 14, 30, 0, 0, time.UTC),
		"14:31":                time.Date(2026, 11, 29, 14, 31, 0, 0, time.UTC),
		"09:00:07":             time.Date(2026, 11, 30, 9, 0, 7, 0, time.UTC),
		"2026-11-29 23:59":     time.Date(2026, 11, 29, 23, 59, 0, 0, time.UTC),
		"2026-11-29":           time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC),
		"2026-11-29T23:59:01Z": time.Date(2026, 11, 29, 23, 59, 1, 0, time.UTC),
	} {
		got, err := timeOf(text, now)
		require.NoError(t, err)
		require.Equal(t, want, got, text)
	}
	_, err := timeOf("-1h", now)
	require.Error(t, err)
}
