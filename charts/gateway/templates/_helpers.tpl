{{- /* Puts what is set over the defaults. Each template begins with it; the first one does it for all. */ -}}
{{- define "gateway.prepare" -}}
{{- if hasKey .Values "_internal_defaults_do_not_set" }}
{{- $defaults := deepCopy (get .Values "_internal_defaults_do_not_set") }}
{{- $_ := set . "Values" (mustMergeOverwrite $defaults (deepCopy (omit .Values "_internal_defaults_do_not_set"))) }}
{{- end }}
{{- if (((.Values.global).networkPolicy).enabled) }}
{{- fail "global.networkPolicy.enabled = true: this chart has no NetworkPolicy of a gateway; want false, and one of your own" }}
{{- end }}
{{- end }}

{{- define "gateway.name" -}}
{{ default .Release.Name .Values.name }}
{{- end }}

{{- /* As in Istio's chart: an account that is not made here is "default" where none is named. */ -}}
{{- define "gateway.account" -}}
{{ .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "gateway.name" .) "default") }}
{{- end }}

{{- /* As in Istio's chart: istio-ingressgateway has the label istio: ingressgateway. */ -}}
{{- define "gateway.selector" -}}
app: {{ get .Values.labels "app" | default (include "gateway.name" .) | quote }}
istio: {{ get .Values.labels "istio" | default (include "gateway.name" . | trimPrefix "istio-") | quote }}
{{- end }}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/name: {{ include "gateway.name" . }}
app.kubernetes.io/part-of: lateen
{{- with omit .Values.labels "app" "istio" "app.kubernetes.io/name" "app.kubernetes.io/part-of" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "gateway.meta" -}}
name: {{ include "gateway.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "gateway.labels" . | nindent 2 }}
{{- with .Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The labels of Pods, as JSON: those of all objects, the injection's, and above them those of Pods alone. */ -}}
{{- define "gateway.podLabels" -}}
{{- $labels := merge (dict "sidecar.istio.io/inject" "true") (include "gateway.labels" . | fromYaml) }}
{{- with .Values.revision }}{{ $_ := set $labels "istio.io/rev" . }}{{ end }}
{{- with .Values.networkGateway }}{{ $_ := set $labels "topology.istio.io/network" . }}{{ end }}
{{- mustMergeOverwrite $labels .Values.podLabels | toJson }}
{{- end }}

{{- define "gateway.podAnnotations" -}}
{{- $annotations := dict "inject.istio.io/templates" "gateway" "prometheus.io/path" "/stats/prometheus" "prometheus.io/port" "15020" "prometheus.io/scrape" "true" }}
{{- mustMergeOverwrite $annotations .Values.podAnnotations | toJson }}
{{- end }}

{{- /* How many replicas run at least; 0 where the nodes decide. */ -}}
{{- define "gateway.least" -}}
{{- if eq .Values.kind "DaemonSet" }}0
{{- else if .Values.autoscaling.enabled }}{{ int .Values.autoscaling.minReplicas }}
{{- else }}{{ int (kindIs "invalid" .Values.replicaCount | ternary 2 .Values.replicaCount) }}
{{- end }}
{{- end }}
