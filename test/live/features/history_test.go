package features

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminpage "github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// rememberedOf asks the mesh what it remembers.
func rememberedOf(t *testing.T, m *livemesh.Mesh, q adminpage.HistoryQuestion) adminpage.History {
	t.Helper()
	past, err := adminpage.Read[adminpage.History](t.Context(), monitored(t, m), adminpage.Past, q.Query())
	require.NoError(t, err)
	return past
}

func monitored(t *testing.T, m *livemesh.Mesh) adminpage.Client {
	u, err := url.Parse(m.MonitoringURL("/"))
	require.NoError(t, err)
	return adminpage.At(u.Host)
}

// TestWhichChangeBrokeIt: the change that made a real proxy answer otherwise is named, with its
// fields, the resources that it changed, and when the proxies had it.
func TestWhichChangeBrokeIt(t *testing.T) {
	m := newFilterRig(t, "")
	routes := func(planned string) string {
		return livemesh.Object("VirtualService web", `
hosts: [web]
http:
- name: all
  headers: {response: {set: {x-planned: "`+planned+`"}}}
  route: [{destination: {host: web}}]
`)
	}
	m.Write("routes.yaml", routes("fine"))
	m.Settle()
	m.awaitSoon("the routes are used", answers("x-planned", "fine"))
	client := clientProxy(t, m.Mesh)
	dumpBefore, changedAt := dumpAt(t, m.Mesh, client, time.Time{}), time.Now()
	m.Write("routes.yaml", routes("broken"))
	m.Settle()
	m.awaitSoon("the other routes are used", answers("x-planned", "broken"))

	var past adminpage.History
	q := adminpage.HistoryQuestion{Object: adminpage.ObjectQuestion{Kind: "VirtualService", Name: "web"}}
	m.Await("both changes are remembered", func() bool {
		past = rememberedOf(t, m.Mesh, q)
		return len(past.Generations) > 1 && past.Generations[0].Delivery != nil
	})
	last := past.Generations[0]
	require.Equal(t, []adminpage.FieldChange{{
		Path: "spec.http[all].headers.response.set.x-planned", Before: `"fine"`, After: `"broken"`,
	}}, last.Causes[0].Fields)
	require.Equal(t, adminpage.Changes, last.Causes[0].Verb)
	require.Contains(t, last.Causes[0].Origin, "routes.yaml:")
	require.Equal(t, adminpage.Created, past.Generations[1].Causes[0].Verb)
	require.NotEmpty(t, last.Groups)
	require.Positive(t, last.Delivery.Proxies)
	require.Positive(t, last.Delivery.Bytes)
	require.LessOrEqual(t, last.Delivery.Half, last.Delivery.All)

	got := rememberedOf(t, m.Mesh, adminpage.HistoryQuestion{Proxy: client, Limit: 1})
	require.Len(t, got.Generations, 1)
	host := got.Generations[0].Groups[0].Resources[0]
	why := rememberedOf(t, m.Mesh, adminpage.HistoryQuestion{Proxy: client, Resource: host.Name, Limit: 1})
	require.Len(t, why.Generations, 1)
	require.Equal(t, last.Generation, why.Generations[0].Generation)

	require.NotEqual(t, dumpBefore, dumpAt(t, m.Mesh, client, time.Time{}))
	require.Equal(t, dumpBefore, dumpAt(t, m.Mesh, client, changedAt), "with the versions that were sent then")
	blame := ask[adminpage.Blame](t, m.Mesh, adminpage.Blaming,
		adminpage.BlameQuestion{Proxy: client, Type: host.Type, Name: host.Name}.Query())
	require.NotEmpty(t, blame.Changes)
	require.Equal(t, last.Generation, blame.Changes[0].Generation)
	require.True(t, slices.ContainsFunc(blame.Changes[0].Parts, func(p adminpage.FieldChange) bool {
		return p.After == `"broken"`
	}))
	diff := ask[adminpage.ConfigDiff](t, m.Mesh, adminpage.Differing,
		adminpage.DiffQuestion{Proxy: client, From: changedAt}.Query())
	require.Len(t, diff.Changes, 1)
	require.Equal(t, host.Name, diff.Changes[0].Name)
	require.Contains(t, diff.Changes[0].Fields[0].Before, "fine")
	earlier := ask[adminpage.Restoration](t, m.Mesh, adminpage.Restoring,
		adminpage.HistoryQuestion{Since: changedAt}.Query())
	require.Len(t, earlier.Objects, 1)
	require.Equal(t, adminpage.Changes, earlier.Objects[0].Verb)
	spec, err := json.Marshal(earlier.Objects[0].Spec)
	require.NoError(t, err)
	require.Contains(t, string(spec), `"x-planned":"fine"`)
}

// ask reads a page.
func ask[T any](t *testing.T, m *livemesh.Mesh, name string, query url.Values) T {
	t.Helper()
	answer, err := adminpage.Read[T](t.Context(), monitored(t, m), name, query)
	require.NoError(t, err)
	return answer
}

// clientProxy is the name of the client's proxy.
func clientProxy(t *testing.T, m *livemesh.Mesh) string {
	t.Helper()
	proxies := ask[[]adminpage.SyncStatus](t, m, adminpage.Sync, nil)
	at := slices.IndexFunc(proxies, func(p adminpage.SyncStatus) bool {
		return strings.HasPrefix(p.ProxyID, "client-v1")
	})
	require.GreaterOrEqual(t, at, 0)
	return proxies[at].ProxyID
}

// dumpAt is what a proxy had at a time; the zero time is now.
func dumpAt(t *testing.T, m *livemesh.Mesh, proxy string, at time.Time) string {
	t.Helper()
	query := url.Values{"proxyID": {proxy}}
	if !at.IsZero() {
		query.Set(adminpage.ConfigAt, at.Format(time.RFC3339Nano))
	}
	body, err := monitored(t, m).Get(t.Context(), adminpage.Path(adminpage.Dump), query)
	require.NoError(t, err)
	return string(body)
}
