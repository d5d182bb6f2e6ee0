{{- /* The webhooks of the injection for a name: a revision, or a tag of one. It takes a dict of the name and of root, the
chart's own scope. The selectors are Istio's: a Pod is asked about if its namespace has the name, or if it has it itself where its
namespace says nothing, and only if it does not decline. For the name default, istio-injection=enabled and
sidecar.istio.io/inject=true say the same. The policy is Fail: without its proxy a Pod would be outside of the mesh. It holds for the
Pods that the selectors match, and for no others. The control plane's own Pods decline. Istio's tools look for the suffix of the
webhooks' names. */ -}}
{{- define "lateen.injection" -}}
{{- $root := .root }}
{{- $named := dict "key" "istio.io/rev" "operator" "In" "values" (list .name) }}
{{- $unnamed := dict "key" "istio.io/rev" "operator" "DoesNotExist" }}
{{- $unlabelled := dict "key" "istio-injection" "operator" "DoesNotExist" }}
{{- $willing := dict "key" "sidecar.istio.io/inject" "operator" "NotIn" "values" (list "false") }}
{{- $silent := dict "key" "sidecar.istio.io/inject" "operator" "DoesNotExist" }}
{{- $webhooks := list
  (dict "name" "rev.namespace." "namespaces" (list $named $unlabelled) "pods" (list $willing))
  (dict "name" "rev.object." "namespaces" (list $unnamed $unlabelled) "pods" (list $willing $named)) }}
{{- if eq .name "default" }}
{{- $enabled := dict "key" "istio-injection" "operator" "In" "values" (list "enabled") }}
{{- $asked := dict "key" "sidecar.istio.io/inject" "operator" "In" "values" (list "true") }}
{{- $webhooks = concat $webhooks (list
  (dict "name" "namespace." "namespaces" (list $enabled) "pods" (list $willing))
  (dict "name" "object." "namespaces" (list $unlabelled $unnamed) "pods" (list $asked $unnamed))) }}
{{- if $root.Values.sidecarInjectorWebhook.enableNamespacesByDefault }}
{{- $ours := dict "key" "kubernetes.io/metadata.name" "operator" "NotIn" "values" (list "kube-system" "kube-public" "kube-node-lease" "local-path-storage") }}
{{- $webhooks = append $webhooks
  (dict "name" "auto." "namespaces" (list $unlabelled $unnamed $ours) "pods" (list $silent $unnamed)) }}
{{- end }}
{{- end }}
{{- range $webhooks }}
- name: {{ .name }}sidecar-injector.istio.io
  admissionReviewVersions:
  - v1
  clientConfig:
    service:
      name: {{ include "lateen.name" $root }}
      namespace: {{ $root.Release.Namespace }}
      path: /inject
      port: 443
  failurePolicy: Fail
  matchPolicy: Equivalent
  namespaceSelector:
    matchExpressions:
    {{- toYaml .namespaces | nindent 4 }}
  objectSelector:
    matchExpressions:
    {{- toYaml .pods | nindent 4 }}
  reinvocationPolicy: {{ default "Never" $root.Values.sidecarInjectorWebhook.reinvocationPolicy }}
  rules:
  - apiGroups:
    - ""
    apiVersions:
    - v1
    operations:
    - CREATE
    resources:
    - pods
  sideEffects: None
  timeoutSeconds: 10
{{- end }}
{{- end }}
