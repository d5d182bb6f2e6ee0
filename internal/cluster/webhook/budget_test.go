package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

const routesOfShop = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: shop, annotations: {note: x}}
spec:
  hosts: [web]
  http: [{route: [{destination: {host: web}}]}]
`

// TestChangesHaveABudget: one that reaches too many proxies is warned of or refused, unless it says
// that it is meant, or nobody knows how many these are.
func TestChangesHaveABudget(t *testing.T) {
	const reaches = "this reaches %d proxies; lateen plan says what they get"
	of := func(warns, refuses int) model.ChangeBudget { return model.ChangeBudget{Warns: warns, Refuses: refuses} }
	for name, c := range map[string]struct {
		budget           model.ChangeBudget
		proxies          int // -1: nobody knows
		note             string
		refused, warning string
	}{
		"no budget": {proxies: 5000},
		"within":    {budget: of(100, 2000), proxies: 99},
		"much":      {budget: of(100, 2000), proxies: 100, warning: fmt.Sprintf(reaches, 100)},
		"too much": {
			budget: of(100, 2000), proxies: 2000,
			refused: "this reaches 2000 proxies, and from 2000 on a change is refused; want a change that reaches " +
				"fewer, or the annotation lateen.io/over-budget: allow",
		},
		"meant": {
			budget: of(0, 2000), proxies: 3000, note: "lateen.io/over-budget: allow",
			warning: fmt.Sprintf(reaches, 3000),
		},
		"wrong": {
			budget: of(0, 2000), proxies: 3000, note: "lateen.io/over-budget: 'yes'", refused: "over-budget: allow",
		},
		"not known":   {budget: of(0, 1), proxies: -1, warning: "how many proxies this reaches is not known now"},
		"only warned": {budget: of(1, 0), proxies: 3000, warning: fmt.Sprintf(reaches, 3000)},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandler(Options{
				Mesh: model.DefaultMesh, Metrics: newMetrics(), Log: slog.New(slog.DiscardHandler),
				Budget: func(namespace string) model.ChangeBudget {
					require.Equal(t, "shop", namespace)
					return c.budget
				},
				Reach: func(_ context.Context, changes []source.Change) (int, bool) {
					require.Equal(t, "VirtualService shop/web", changes[0].Key.String())
					return c.proxies, c.proxies >= 0
				},
			})
			object := []byte(routesOfShop)
			if c.note != "" {
				object = bytes.Replace(object, []byte("note: x"), []byte(c.note), 1)
			}
			r := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(review(t, "CREATE", object, nil)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.routes().ServeHTTP(w, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			var answer admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			require.Equal(t, c.refused == "", answer.Response.Allowed)
			if c.refused != "" {
				require.Contains(t, answer.Response.Result.Message, c.refused)
			}
			var warnings []string
			if c.warning != "" {
				warnings = []string{c.warning}
			}
			require.Equal(t, warnings, answer.Response.Warnings)
		})
	}
}

// TestBudgetsKeepNobodyOut: while changes are weighed as long as that may take, and more wait for
// it, others are answered; and those that wait too long are not kept out.
func TestBudgetsKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(Options{
			Mesh: model.DefaultMesh, Metrics: newMetrics(), Log: slog.New(slog.DiscardHandler),
			Budget: func(string) model.ChangeBudget { return model.ChangeBudget{Refuses: 1} },
			Reach: func(ctx context.Context, _ []source.Change) (int, bool) {
				<-ctx.Done()
				return 0, false
			},
		})
		ask := func(object []byte) *admissionv1.AdmissionResponse {
			r := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(review(t, "CREATE", object, nil)))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.routes().ServeHTTP(w, r)
			var answer admissionv1.AdmissionReview
			assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			return answer.Response
		}
		var waiting sync.WaitGroup
		for range 3 * defaultLimits.places {
			waiting.Go(func() {
				answer := ask([]byte(routesOfShop))
				assert.True(t, answer.Allowed)
				assert.Len(t, answer.Warnings, 1)
			})
		}
		synctest.Wait()
		broken := bytes.Replace([]byte(routesOfShop), []byte("hosts: [web]"), []byte("hosts: 7"), 1)
		require.False(t, ask(broken).Allowed)
		waiting.Wait()
	})
}
