package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
	"github.com/lateen-mesh/lateen/internal/testkit/cost"
)

// Anybody who reaches the port may post a review. Whatever is in it, it costs little.
func TestExpensiveReviewsAreRefused(t *testing.T) {
	injector, err := inject.New(inject.Options{Namespace: "istio-system"}, inject.Texts{})
	require.NoError(t, err)
	h := NewHandler(Options{
		Mesh: model.DefaultMesh, Metrics: newMetrics(), Log: slog.New(slog.DiscardHandler),
		Injector: func() (*inject.Injector, error) { return injector, nil },
	})
	const number = "11111111111111111111e1000000000"
	lists := "[" + strings.Repeat("[],", 1<<20) + "[]]"
	reviewOf := func(kind, object string) []byte {
		return fmt.Appendf(nil, `{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"request": {"uid": "u", "operation": "CREATE", "kind": %s, "object": %s}}`, kind, object)
	}
	const pod = `{"version": "v1", "kind": "Pod"}`
	const service = `{"group": "networking.istio.io", "version": "v1", "kind": "ServiceEntry"}`
	for name, c := range map[string]struct {
		path string
		body []byte
		code int
	}{
		"an annotation": {InjectPath, reviewOf(pod, `{"metadata": {"annotations": {"sidecar.istio.io/proxyCPU": "`+
			number+`"}}, "spec": {}}`), http.StatusOK},
		"a limit": {InjectPath, reviewOf(pod, `{"spec": {"containers": [{"resources": {"limits": {"cpu": "`+
			number+`"}}}]}}`), http.StatusOK},
		"a Pod of lists":         {InjectPath, reviewOf(pod, lists), http.StatusBadRequest},
		"an object of lists":     {Path, reviewOf(service, lists), http.StatusBadRequest},
		"a review beside it":     {Path, []byte(`{"request": {"options": ` + lists + `}}`), http.StatusBadRequest},
		"a review that is deep":  {Path, []byte(strings.Repeat(`{"a":`, 1<<20)), http.StatusBadRequest},
		"an object that is deep": {Path, reviewOf(service, strings.Repeat("[", 9000)+strings.Repeat("]", 9000)), 400},
	} {
		t.Run(name, func(t *testing.T) {
			done := cost.Bound(t, 128<<20)
			w := post(h, c.path, "application/json", c.body)
			done()
			require.Equal(t, c.code, w.Code)
			if c.code != http.StatusOK {
				require.Less(t, w.Body.Len(), 500)
				return
			}
			var review admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &review))
			require.False(t, review.Response.Allowed)
		})
	}
}

// Lines that clients cause are few and short.
func TestRefusedReviewsDoNotFillTheLog(t *testing.T) {
	var lines bytes.Buffer
	h := NewHandler(Options{
		Mesh: model.DefaultMesh, Metrics: newMetrics(), Log: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	const interval, burst = 10 * time.Second, 10 // observe.LogLimit
	began := time.Now()
	for range 200 {
		w := post(h, Path, "application/json", []byte(`{"kind": "`+strings.Repeat("\u202e", 1<<16)+`"}`))
		require.Equal(t, http.StatusBadRequest, w.Code)
	}
	intervals := 1 + int(time.Since(began)/interval)
	require.LessOrEqual(t, bytes.Count(lines.Bytes(), []byte("\n")), burst*intervals)
	for line := range bytes.Lines(lines.Bytes()) {
		require.Less(t, len(line), 1<<10)
	}
	require.NotContains(t, lines.String(), "\u202e")
}
