package features

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	adminpage "github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// planned asks the mesh what manifests would do.
func planned(t *testing.T, m *livemesh.Mesh, q adminpage.PlanQuestion) adminpage.Plan {
	t.Helper()
	question, err := json.Marshal(q)
	require.NoError(t, err)
	//nolint:noctx // ends with the test
	answer, err := http.Post(m.MonitoringURL("/debug/planz"), "application/json", bytes.NewReader(question))
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
	var plan adminpage.Plan
	require.NoError(t, json.Unmarshal(body, &plan))
	return plan
}

// TestAPlanIsWhatThenHappens: the fields that a plan says would differ do when the manifests are
// applied, and not before; what is refused is told, and the rest planned.
func TestAPlanIsWhatThenHappens(t *testing.T) {
	m := newFilterRig(t, "")
	routes := livemesh.Object("VirtualService web", `
hosts: [web]
http:
- name: patient
  timeout: 7s
  headers: {response: {set: {x-planned: "yes"}}}
  route: [{destination: {host: web}}]
`)
	q := adminpage.PlanQuestion{Files: []adminpage.PlanFile{
		{Name: "routes.yaml", Content: routes},
		{Name: "broken.yaml", Content: livemesh.Object("VirtualService broken", "hosts: [web]\nhttp: [{rout: []}]\n")},
	}}
	plan := planned(t, m.Mesh, q)
	require.Equal(t, adminpage.Created, plan.Objects[0].Verb)
	require.Equal(t, adminpage.Refused, plan.Objects[1].Verb)
	require.NotEmpty(t, plan.Appeared)
	require.Contains(t, plan.Appeared[0].Text, "broken.yaml:")
	require.Positive(t, plan.Proxies)
	require.Zero(t, plan.Drained)
	require.Positive(t, plan.Bytes)
	require.Equal(t, plan.Proxies, plan.Namespaces["default"])
	require.NotContains(t, m.client.Get("http://web/").Header, "X-Planned", "nothing has happened")

	warned := "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: web}\n---\n" +
		livemesh.Object("VirtualService lost", "hosts: [lost]\nhttp: [{route: [{destination: {host: nobody}}]}]\n")
	m.Write("routes.yaml", routes)
	m.Write("warned.yaml", warned)
	m.Settle()
	m.awaitSoon("the routes are used", answers("x-planned", "yes"))
	again := planned(t, m.Mesh, adminpage.PlanQuestion{Files: q.Files[:1]})
	require.Zero(t, again.Proxies)
	require.Equal(t, adminpage.Unchanged, again.Objects[0].Verb)
	standing := planned(t, m.Mesh, adminpage.PlanQuestion{
		Files: []adminpage.PlanFile{{Name: "x/y.yaml", Content: warned}},
	})
	require.Empty(t, standing.Appeared, "what is wrong already is not new, wherever it stands")
	require.Empty(t, standing.Mended)
	require.Len(t, standing.Notes, 1, "of what nobody reads")
	require.Equal(t, adminpage.Unchanged, standing.Objects[0].Verb)
	pods := planned(t, m.Mesh, adminpage.PlanQuestion{Files: []adminpage.PlanFile{{Name: "pods.yaml", Content: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: more}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: app, image: app}]}
`}}})
	require.Equal(t, adminpage.NotJudged, pods.Objects[0].Verb)
	require.Zero(t, pods.Proxies)
	gone := planned(t, m.Mesh, adminpage.PlanQuestion{Files: q.Files[:1], Delete: true})
	require.Equal(t, adminpage.Deleted, gone.Objects[0].Verb)
	require.Equal(t, plan.Proxies, gone.Proxies)
}
