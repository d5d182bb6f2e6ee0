package precheck

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func documents(t *testing.T, text string) []unstructured.Unstructured {
	var all []unstructured.Unstructured
	for document := range strings.SplitSeq(text, "---\n") {
		var o unstructured.Unstructured
		require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
		all = append(all, o)
	}
	return all
}

const webhooks = `kind: MutatingWebhookConfiguration
metadata: {name: istio, labels: {app: sidecar-injector}}
webhooks:
- name: namespace
  clientConfig: {service: {path: /inject}}
  rules: [{resources: [pods]}]
  namespaceSelector: {matchLabels: {istio-injection: enabled}}
  objectSelector: {matchExpressions: [{key: sidecar.istio.io/inject, operator: NotIn, values: ["false"]}]}
- name: object
  clientConfig: {service: {path: /inject}}
  rules: [{resources: [pods]}]
  objectSelector: {matchLabels: {sidecar.istio.io/inject: "true"}}
- name: remote
  clientConfig: {url: "https://istiod.example.com:15017/inject/cluster/east"}
  rules: [{resources: [pods]}]
  namespaceSelector: {matchExpressions: [{key: maistra.io/member-of, operator: Exists}]}
- name: validation
  clientConfig: {service: {path: /inject}}
  rules: [{resources: [services]}]
---
kind: MutatingWebhookConfiguration
metadata: {name: policies}
webhooks:
- {name: all, clientConfig: {service: {path: /mutate}}, rules: [{resources: [pods]}]}
---
kind: MutatingWebhookConfiguration
metadata: {name: lateen-injector-istio-system, labels: {app.kubernetes.io/part-of: lateen}}
webhooks:
- {name: namespace, clientConfig: {service: {path: /inject}}, rules: [{resources: [pods]}]}
`

func TestOtherInjectorsAreFoundByTheirSelectors(t *testing.T) {
	for labels, want := range map[string][]string{
		"{istio-injection: enabled}": {"MutatingWebhookConfiguration istio (webhook namespace)"},
		"{maistra.io/member-of: a, istio-injection: enabled}": {
			"MutatingWebhookConfiguration istio (webhook namespace)",
			"MutatingWebhookConfiguration istio (webhook remote)",
		},
		"{istio.io/rev: lateen}": nil,
	} {
		namespace := documents(t, "metadata: {name: shop, labels: "+labels+"}")[0]
		require.Equal(t, want, Injectors(documents(t, webhooks), &namespace), labels)
	}
}

// TestNamespacesOfTwoInjectorsAreNoGo: only what asks for the revision is this one's business.
func TestNamespacesOfTwoInjectorsAreNoGo(t *testing.T) {
	shop := documents(t, "kind: Namespace\nmetadata: {name: shop, labels: {istio-injection: enabled}}")[0]
	require.Empty(t, Namespace(&shop, "lateen", documents(t, webhooks)).Findings)
	require.Equal(t, []Finding{{
		Field: "metadata.labels[istio-injection]", Value: "enabled",
		Why: "MutatingWebhookConfiguration istio (webhook namespace) injects its Pods too; want one control plane, " +
			"by the label istio.io/rev",
	}}, Namespace(&shop, "default", documents(t, webhooks)).Findings)
}

func TestAPodWithoutItsProxyIsTold(t *testing.T) {
	const status = `metadata: {annotations: {sidecar.istio.io/status: '{"revision": "lateen"}'}}` + "\n"
	for pod, want := range map[string]string{
		"spec: {containers: [{name: app}]}":                                                 "a new Pod gets no proxy",
		status + "spec: {containers: [{name: app}, {name: istio-proxy}]}":                   "",
		status + "spec: {containers: [{name: app}], initContainers: [{name: istio-proxy}]}": "",
		strings.Replace(status, "lateen", "default", 1) + "spec: {containers: [{name: istio-proxy}]}": "" +
			"a new Pod gets its proxy from revision default",
		"spec: {containers: [{name: istio-proxy}]}": `a new Pod gets a proxy, and metadata.annotations[` +
			`sidecar.istio.io/status] = ""; want what Lateen's injection writes`,
	} {
		o := documents(t, pod)[0]
		require.Equal(t, want, Injected(&o, "lateen"), pod)
	}
}
