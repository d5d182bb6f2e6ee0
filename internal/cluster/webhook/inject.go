package webhook

import (
	"context"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/cluster/inject"
)

// InjectPath is where an API server asks what a Pod gets. A path below it sets variables of the
// proxy: /inject/cluster/NAME/net/NAME, as in Istio's webhook configurations.
const InjectPath = "/inject"

// inject answers with the patch that adds a proxy to a Pod. It ignores everything but the creation
// of Pods. Without an injector there is no answer, and the API server's failure policy decides.
func (h *handler) inject(
	_ context.Context, _ func(), path string, r *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	response := &admissionv1.AdmissionResponse{UID: r.UID, Allowed: true}
	if !createsPod(r) && !isOfKubeInject(r) {
		return response, nil
	}
	injector, err := h.Injector()
	if err != nil {
		return nil, failure(http.StatusServiceUnavailable, "Pods cannot be injected: %v", err)
	}
	metrics := &h.Metrics.Injection
	metrics.Requests.Inc()
	start := time.Now()
	result, err := injector.Inject(inject.Pod{
		JSON: r.Object.Raw, Namespace: r.Namespace, Variables: variables(path), Configs: h.ProxyConfigs,
	})
	metrics.Time.Observe(time.Since(start).Seconds())
	if result.Warning != "" {
		response.Warnings = []string{result.Warning}
	}
	switch {
	case err != nil:
		metrics.Failed.Inc()
		if skipped, ok := h.logLimit.Allow("inject", start); ok {
			h.Log.Warn("a Pod cannot be injected", "namespace", forLog(r.Namespace), "name", forLog(r.Name),
				"error", forLog(err.Error()), "lines_left_out", skipped)
		}
		response.Allowed = false
		response.Result = &metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest,
			Message: "the Pod cannot be injected:\n" + err.Error(),
		}
	case result.Inject:
		metrics.Injected.Inc()
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = result.Patch, &kind
	default:
		metrics.Skipped.Inc()
		h.Log.Debug("a Pod gets no proxy", "namespace", r.Namespace, "name", r.Name, "reason", result.Reason)
	}
	return response, nil
}

// createsPod reports whether a request is about the creation of a Pod.
func createsPod(r *admissionv1.AdmissionRequest) bool {
	return r.Kind.Group == "" && r.Kind.Kind == "Pod" && r.Operation == admissionv1.Create && r.SubResource == ""
}

// isOfKubeInject reports whether istioctl kube-inject asks, which names the kind of the question
// and no operation. An API server asks nothing like it.
func isOfKubeInject(r *admissionv1.AdmissionRequest) bool {
	return r.Kind.Group == admissionv1.GroupName && r.Kind.Kind == "AdmissionRequest" && r.Operation == ""
}

// variables returns those that a path sets. A slash in a value is written --slash--.
func variables(path string) map[string]string {
	words := strings.Split(strings.Trim(strings.TrimPrefix(path, InjectPath), "/"), "/")
	known := map[string]string{"cluster": "ISTIO_META_CLUSTER_ID", "net": "ISTIO_META_NETWORK"}
	out := map[string]string{}
	for n := 0; n+1 < len(words); n += 2 {
		name, ok := known[words[n]]
		if !ok {
			name = strings.ToUpper(words[n])
		}
		if name != "" {
			out[name] = strings.ReplaceAll(words[n+1], "--slash--", "/")
		}
	}
	return out
}
