package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/testkit/cost"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// handlerWith is a handler in a mesh that is configured as by default.
func handlerWith(m *observe.Metrics) *handler {
	return newHandler(Options{Mesh: model.DefaultMesh, Metrics: m, Log: slog.New(slog.DiscardHandler)})
}

func newMetrics() *observe.Metrics {
	return observe.New(observe.Build{Start: time.Now(), Now: time.Now})
}

// review is the AdmissionReview that an API server sends for the objects of a case.
func review(t testing.TB, operation string, object, old []byte) []byte {
	var head struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        metav1.ObjectMeta `json:"metadata"`
	}
	raw := func(text []byte) runtime.RawExtension {
		if text == nil {
			return runtime.RawExtension{}
		}
		data, err := yaml.YAMLToJSON(text)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &head))
		return runtime.RawExtension{Raw: data}
	}
	request := &admissionv1.AdmissionRequest{
		UID:       "u",
		Operation: admissionv1.Operation(operation),
		OldObject: raw(old),
		Object:    raw(object),
	}
	kind := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind)
	request.Kind = metav1.GroupVersionKind(kind)
	request.Resource = metav1.GroupVersionResource{
		Group:    kind.Group,
		Version:  kind.Version,
		Resource: kinds.Of(kinds.Kind(kind.Kind)).Resource,
	}
	request.Name, request.Namespace = head.Metadata.Name, head.Metadata.Namespace
	out, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	require.NoError(t, err)
	return out
}

func post(h http.Handler, path, media string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", media)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestReviewsMatchTheirCases asks about the objects of each case. One case is one archive in
// testdata: its comment is the operation, and its files are "object", "old" (for an update) and
// "want".
func TestReviewsMatchTheirCases(t *testing.T) {
	golden.Archives(t, "testdata", func(t *testing.T, in *txtar.Archive) string {
		files := map[string][]byte{}
		for _, f := range in.Files {
			files[f.Name] = f.Data
		}
		metrics := newMetrics()
		body := review(t, strings.TrimSpace(string(in.Comment)), files["object"], files["old"])
		w := post(handlerWith(metrics).routes(), "/validate", "application/json", body)
		require.Equal(t, http.StatusOK, w.Code)
		return shown(t, w.Body.Bytes()) + counted(metrics)
	})
}

func shown(t testing.TB, body []byte) string {
	var answer admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(body, &answer))
	require.Equal(t, "u", string(answer.Response.UID))
	out := fmt.Sprintln("allowed:", answer.Response.Allowed)
	if answer.Response.Result != nil {
		out += fmt.Sprintln(answer.Response.Result.Code, answer.Response.Result.Message)
	}
	for _, w := range answer.Response.Warnings {
		out += fmt.Sprintln("warning:", w)
	}
	return out
}

func counted(m *observe.Metrics) string {
	families, err := m.Registry.Gather()
	if err != nil {
		return err.Error()
	}
	out := ""
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "galley_validation_") ||
			strings.HasPrefix(f.GetName(), "galley_validation_config") {
			continue
		}
		for _, s := range f.GetMetric() {
			var labels []string
			for _, l := range s.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			out += fmt.Sprintf("%s{%s} %v\n", f.GetName(), strings.Join(labels, ","), s.GetCounter().GetValue())
		}
	}
	return out
}

func TestWhatIsNoReviewIsRefused(t *testing.T) {
	good := review(t, "CREATE",
		[]byte("apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: a, namespace: b}\n"), nil)
	for _, c := range []struct {
		media string
		body  []byte
		code  int
		says  string
	}{
		{"text/plain", good, http.StatusUnsupportedMediaType, "want application/json"},
		{"application/json", []byte("{"), http.StatusBadRequest, "no AdmissionReview"},
		{
			"application/json",
			[]byte(`{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{}}`),
			http.StatusBadRequest, "want AdmissionReview of admission.k8s.io/v1",
		},
		{
			"application/json", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`),
			http.StatusBadRequest, "no request",
		},
		{"application/json", make([]byte, maxBody+1), http.StatusRequestEntityTooLarge, "more than"},
	} {
		h := handlerWith(newMetrics())
		w := post(h.routes(), "/validate", c.media, c.body)
		require.Equal(t, c.code, w.Code)
		require.Contains(t, w.Body.String(), c.says)
		require.Equal(t, fmt.Sprintf("galley_validation_http_error{status=%d} 1\n", c.code), counted(h.Metrics))
	}
	require.Equal(t, http.StatusOK,
		post(handlerWith(newMetrics()).routes(), "/validate/a-revision", "application/json; charset=utf-8", good).Code)
}

// Labels are made by whoever asks, so that only names that are known may become some.
func TestLabelsAreBounded(t *testing.T) {
	h := handlerWith(newMetrics())
	for i := range 100 {
		h.respond(t.Context(), func() {}, &admissionv1.AdmissionRequest{
			Operation: admissionv1.Create,
			Kind:      metav1.GroupVersionKind{Group: "networking.istio.io", Version: "v1", Kind: "Gateway"},
			Resource: metav1.GroupVersionResource{
				Group:    "networking.istio.io",
				Version:  fmt.Sprint("v", i),
				Resource: "gateways",
			},
		})
	}
	require.LessOrEqual(t, strings.Count(counted(h.Metrics), "\n"), 2)
}

// Anybody may send what is no review: a few lines of the log say so, and how many were left out.
func TestRequestsThatCannotBeAnsweredFillNoLog(t *testing.T) {
	var log strings.Builder
	h := newHandler(Options{
		Mesh: model.DefaultMesh, Metrics: newMetrics(), Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	for range 100 {
		post(h.routes(), Path, "application/json", []byte(`{"kind": "`+strings.Repeat("x", 4<<10)+`"}`))
	}
	require.Equal(t, 10, strings.Count(log.String(), "\n"))
	require.Less(t, log.Len(), 10*2<<10)
}

// A large object is judged as any other, and what is said of one with thousands of mistakes is
// short.
func TestLargeObjectsAreJudgedAndAnswersAreShort(t *testing.T) {
	const routes = 2000
	object := func(timeout string) []byte {
		var out strings.Builder
		out.WriteString("apiVersion: networking.istio.io/v1\nkind: VirtualService\n" +
			"metadata: {name: a, namespace: b}\nspec:\n  hosts: [a]\n  http:\n")
		for i := range routes {
			fmt.Fprintf(&out, "  - {match: [{uri: {prefix: /%05d}}], route: [{destination: {host: a}}], timeout: %s}\n",
				i, timeout)
		}
		return []byte(out.String())
	}
	h := handlerWith(newMetrics())
	good := shown(t, post(h.routes(), Path, "application/json", review(t, "CREATE", object("5s"), nil)).Body.Bytes())
	require.Equal(t, "allowed: true\n", good)
	bad := shown(t, post(h.routes(), Path, "application/json", review(t, "CREATE", object("soon"), nil)).Body.Bytes())
	require.Contains(t, bad, "allowed: false")
	require.Contains(t, bad, "more")
	require.Less(t, len(bad), 8<<10)
}

func FuzzReview(f *testing.F) {
	cases, err := filepath.Glob("testdata/*.txtar")
	require.NoError(f, err)
	for _, name := range cases {
		archive, err := txtar.ParseFile(name)
		require.NoError(f, err)
		files := map[string][]byte{}
		for _, file := range archive.Files {
			files[file.Name] = file.Data
		}
		f.Add(review(f, strings.TrimSpace(string(archive.Comment)), files["object"], files["old"]))
	}
	h := handlerWith(newMetrics())
	f.Fuzz(func(t *testing.T, body []byte) {
		done := cost.Bound(t, 256<<20)
		defer done()
		w := post(h.routes(), "/validate", "application/json", body)
		if w.Code == http.StatusOK {
			var answer admissionv1.AdmissionReview
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
			require.True(t, answer.Response.Allowed || answer.Response.Result.Message != "")
		}
	})
}
