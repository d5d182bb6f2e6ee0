package webhook

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/cluster/inject"
)

// askInjection sends a review of a Pod to a path.
func askInjection(t *testing.T, h http.Handler, path, pod string, edit func(*admissionv1.AdmissionRequest),
) (*admissionv1.AdmissionResponse, int) {
	t.Helper()
	request := &admissionv1.AdmissionRequest{
		UID: "u", Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Operation: admissionv1.Create,
		Namespace: "shop", Object: runtime.RawExtension{Raw: []byte(pod)},
	}
	if edit != nil {
		edit(request)
	}
	body, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: request,
	})
	require.NoError(t, err)
	w := post(h, path, "application/json", body)
	if w.Code != http.StatusOK {
		return nil, w.Code
	}
	var review admissionv1.AdmissionReview
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &review))
	return review.Response, w.Code
}

const plainPod = `{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}`

func TestInjection(t *testing.T) {
	injector, err := inject.New(inject.Options{Namespace: "istio-system"}, inject.Texts{})
	require.NoError(t, err)
	missing := errors.New("not read yet")
	metrics := newMetrics()
	h := NewHandler(Options{
		Mesh: model.DefaultMesh, Metrics: metrics, Log: slog.New(slog.DiscardHandler),
		Injector: func() (*inject.Injector, error) { return injector, missing },
		ProxyConfigs: func(namespace string, _ map[string]string) model.ProxyConfigs {
			return model.ProxyConfigs{Namespace: &model.ProxyConfig{
				Environment: []model.Variable{{Name: "FROM_PROXY_CONFIG_OF", Value: namespace}},
			}}
		},
	})
	_, code := askInjection(t, h, InjectPath, plainPod, nil)
	require.Equal(t, http.StatusServiceUnavailable, code, "the failure policy decides")

	missing = nil
	got, _ := askInjection(t, h, InjectPath+"/cluster/east/net/a--slash--b/odd", plainPod, nil)
	require.True(t, got.Allowed)
	require.Equal(t, admissionv1.PatchTypeJSONPatch, *got.PatchType)
	require.Contains(t, string(got.Patch), `{"name":"ISTIO_META_CLUSTER_ID","value":"east"}`)
	require.Contains(t, string(got.Patch), `{"name":"ISTIO_META_NETWORK","value":"a/b"}`)
	require.Contains(t, string(got.Patch), `{"name":"FROM_PROXY_CONFIG_OF","value":"shop"}`)

	got, _ = askInjection(t, h, InjectPath,
		`{"metadata": {"annotations": {"sidecar.istio.io/proxyCPU": "fast"}}, "spec": {}}`, nil)
	require.False(t, got.Allowed)
	require.Contains(t, got.Result.Message, `metadata.annotations[sidecar.istio.io/proxyCPU] = "fast"; want a quantity`)

	got, _ = askInjection(t, h, InjectPath,
		`{"metadata": {"labels": {"sidecar.istio.io/inject": "sure"}}, "spec": {"containers": []}}`, nil)
	require.True(t, got.Allowed)
	require.Len(t, got.Warnings, 1)

	got, _ = askInjection(t, h, InjectPath, `{"spec": {"hostNetwork": true}}`, nil)
	require.True(t, got.Allowed)
	require.Empty(t, got.Patch)

	got, _ = askInjection(t, h, InjectPath, `{"spec": 5}`, nil)
	require.False(t, got.Allowed)

	got, _ = askInjection(t, h, InjectPath, plainPod, func(r *admissionv1.AdmissionRequest) { // istioctl kube-inject
		r.Kind = metav1.GroupVersionKind{Group: admissionv1.GroupName, Version: "v1", Kind: "AdmissionRequest"}
		r.Operation = ""
	})
	require.NotEmpty(t, got.Patch)

	for name, edit := range map[string]func(*admissionv1.AdmissionRequest){
		"an update":      func(r *admissionv1.AdmissionRequest) { r.Operation = admissionv1.Update },
		"another kind":   func(r *admissionv1.AdmissionRequest) { r.Kind.Kind = "Secret" },
		"another group":  func(r *admissionv1.AdmissionRequest) { r.Kind.Group = "example.com" },
		"a sub-resource": func(r *admissionv1.AdmissionRequest) { r.SubResource = "eviction" },
	} {
		got, _ := askInjection(t, h, InjectPath, plainPod, edit)
		require.True(t, got.Allowed, name)
		require.Empty(t, got.Patch, name)
	}
	for metric, want := range map[string]float64{
		"requests": 6, "injected": 3, "skipped": 1, "failed": 2,
	} {
		of := map[string]float64{
			"requests": valueOf(t, metrics.Injection.Requests),
			"injected": valueOf(t, metrics.Injection.Injected),
			"skipped":  valueOf(t, metrics.Injection.Skipped),
			"failed":   valueOf(t, metrics.Injection.Failed),
		}
		require.Equal(t, want, of[metric], metric)
	}
	var took dto.Metric
	require.NoError(t, metrics.Injection.Time.Write(&took))
	require.Positive(t, took.GetHistogram().GetSampleCount())
}

func TestWithoutInjectorThereIsNoSuchPath(t *testing.T) {
	_, code := askInjection(t, handlerWith(newMetrics()).routes(), InjectPath, plainPod, nil)
	require.Equal(t, http.StatusNotFound, code)
}

func valueOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.Counter.GetValue()
}
