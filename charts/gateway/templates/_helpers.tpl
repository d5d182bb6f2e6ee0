{{- define "gateway.name" -}}
{{ default .Release.Name .Values.name }}
{{- end }}

{{- define "gateway.account" -}}
{{ default (include "gateway.name" .) .Values.serviceAccount.name }}
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
{{- with omit .Values.labels "app" "istio" }}
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
