{{- /* The names are those of internal/install: a running control plane finds its objects by them. */ -}}

{{- define "lateen.revision" -}}
{{ default "default" .Values.revision }}
{{- end }}

{{- define "lateen.suffix" -}}
{{- if ne (include "lateen.revision" .) "default" }}-{{ .Values.revision }}{{ end }}
{{- end }}

{{- define "lateen.name" -}}
istiod{{ include "lateen.suffix" . }}
{{- end }}

{{- define "lateen.clusterName" -}}
lateen{{ include "lateen.suffix" . }}-{{ .Release.Namespace }}
{{- end }}

{{- define "lateen.validator" -}}
lateen-validator{{ include "lateen.suffix" . }}-{{ .Release.Namespace }}
{{- end }}

{{- define "lateen.injector" -}}
lateen-injector{{ include "lateen.suffix" . }}-{{ .Release.Namespace }}
{{- end }}

{{- /* As Istio's, since its tools expect these names. */ -}}
{{- define "lateen.tagWebhook" -}}
istio-revision-tag-{{ .tag }}{{ if ne .root.Release.Namespace "istio-system" }}-{{ .root.Release.Namespace }}{{ end }}
{{- end }}

{{- define "lateen.servingSecret" -}}
lateen-serving-cert{{ include "lateen.suffix" . }}
{{- end }}

{{- define "lateen.lease" -}}
lateen-leader{{ include "lateen.suffix" . }}
{{- end }}

{{- define "lateen.keySets" -}}
lateen-jwks{{ include "lateen.suffix" . }}
{{- end }}

{{- /* Istio's tools look for app: istiod. */ -}}
{{- define "lateen.selector" -}}
app: istiod
istio.io/rev: {{ include "lateen.revision" . | quote }}
{{- end }}

{{- define "lateen.labels" -}}
{{ include "lateen.selector" . }}
{{ include "lateen.commonLabels" . }}
{{- end }}

{{- define "lateen.commonLabels" -}}
istio: pilot
app.kubernetes.io/name: lateen
app.kubernetes.io/part-of: lateen
{{- end }}

{{- /* The values below pilot that Istio's chart takes without that prefix too. */ -}}
{{- define "lateen.flat" -}}
{{ list "image" "replicaCount" "autoscaleEnabled" "autoscaleMin" "autoscaleMax" "autoscaleBehavior" "cpu" "memory" "resources" "rollingMaxSurge" "rollingMaxUnavailable" "env" "envVarFrom" "extraContainerArgs" "volumes" "volumeMounts" "initContainers" "ipFamilyPolicy" "ipFamilies" "pdb" "deploymentLabels" "deploymentAnnotations" "podLabels" "podAnnotations" "serviceAnnotations" "serviceAccountAnnotations" "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints" "secretNamespaces" "keepaliveMaxServerConnectionAge" "cni" | toJson }}
{{- end }}

{{- /* Puts what is set over the defaults. Each template begins with it; the first one does it for all.
What a copy of Istio's values has without the prefix pilot stands above these defaults, and below all
that is set outside of it. */ -}}
{{- define "lateen.prepare" -}}
{{- if hasKey .Values "_internal_defaults_do_not_set" }}
{{- $defaults := deepCopy (get .Values "_internal_defaults_do_not_set") }}
{{- $pilot := get $defaults "pilot" }}
{{- range $name := include "lateen.flat" . | fromJsonArray }}
{{- if hasKey $defaults $name }}
{{- $_ := mustMergeOverwrite $pilot (pick $defaults $name) }}
{{- $_ := unset $defaults $name }}
{{- end }}
{{- end }}
{{- $_ := set . "Values" (mustMergeOverwrite $defaults (deepCopy (omit .Values "_internal_defaults_do_not_set"))) }}
{{- end }}
{{- end }}

{{- /* The values below pilot, with those that stand without that prefix, which come first. */ -}}
{{- define "lateen.pilot" -}}
{{- $pilot := deepCopy .Values.pilot }}
{{- range $name := include "lateen.flat" . | fromJsonArray }}
{{- if hasKey $.Values $name }}
{{- $_ := mustMergeOverwrite $pilot (pick $.Values $name) }}
{{- end }}
{{- end }}
{{- toJson $pilot }}
{{- end }}

{{- /* Whether Gateways of the Gateway API are deployed; empty if not. */ -}}
{{- define "lateen.deploysGateways" -}}
{{- if ne (toString (include "lateen.pilot" . | fromJson).env.PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER) "false" }}true{{ end }}
{{- end }}

{{- /* Whether WorkloadEntries of machines outside of Kubernetes are written; empty if not. */ -}}
{{- define "lateen.registersMachines" -}}
{{- $env := (include "lateen.pilot" . | fromJson).env }}
{{- $entries := ne (toString $env.PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION) "false" }}
{{- if or $entries (ne (toString $env.PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS) "false") }}true{{ end }}
{{- end }}

{{- /* The signers of Kubernetes that the control plane approves requests for, by its variables. Rights for signers without a
name would be rights for all, so without signers there are none. */ -}}
{{- define "lateen.signers" -}}
{{- $env := (include "lateen.pilot" . | fromJson).env }}
{{- $signers := list }}
{{- if eq (toString $env.EXTERNAL_CA) "ISTIOD_RA_KUBERNETES_API" }}
{{- $signers = concat $signers (default list (.Values.global).certSigners) }}
{{- with $env.K8S_SIGNER }}{{ $signers = append $signers . }}{{ end }}
{{- with $env.CERT_SIGNER_DOMAIN }}{{ $signers = append $signers (printf "%s/*" .) }}{{ end }}
{{- end }}
{{- if hasPrefix "k8s.io/" (toString $env.PILOT_CERT_PROVIDER) }}
{{- $signers = append $signers (trimPrefix "k8s.io/" $env.PILOT_CERT_PROVIDER) }}
{{- end }}
{{- $signers | uniq | toJson }}
{{- end }}

{{- /* The image of proxies stands beside the control plane's: registry.example.com/lateen-proxy:v1 for
       registry.example.com/lateen:v1. */ -}}
{{- define "lateen.proxyImage" -}}
{{- $all := (include "lateen.pilot" . | fromJson).image }}
{{- $image := regexReplaceAll "@.*$" $all "" }}
{{- $name := regexReplaceAll ":[^:/]*$" $image "" }}
{{- if and (eq $name $image) (ne $image $all) }}
{{- fail (printf "pilot.image = %q has no tag to find the image of proxies by; want global.proxy.image (--proxy-image)" $all) }}
{{- end }}
{{- $name }}-proxy{{ trimPrefix $name $image | default ":latest" }}
{{- end }}

{{- define "lateen.check" -}}
{{- $pilot := include "lateen.pilot" . | fromJson -}}
{{- if not $pilot.image }}
{{- fail "pilot.image is empty; want the image of the control plane, as registry.example.com/lateen:v1" }}
{{- end }}
{{- if eq $pilot.image "pilot" }}
{{- fail "pilot.image = \"pilot\" is istiod's; want the image of the control plane, as registry.example.com/lateen:v1" }}
{{- end }}
{{- with (.Values.global).istioNamespace }}
{{- if ne . $.Release.Namespace }}
{{- fail (printf "global.istioNamespace = %q; want %q, the namespace that the chart is installed in" . $.Release.Namespace) }}
{{- end }}
{{- end }}
{{- with ((.Values.meshConfig).defaultConfig).discoveryAddress }}
{{- $own := printf "%s.%s.svc:15012" (include "lateen.name" $) $.Release.Namespace }}
{{- $same := printf "^%s\\.%s\\.svc(\\.[^:]+)?:15012$" (include "lateen.name" $) $.Release.Namespace }}
{{- if and (not (regexMatch $same .)) (regexMatch "^istiod(-[^.]+)?\\.[^.]+\\.svc(\\.[^:]+)?(:[0-9]+)?$" .) }}
{{- fail (printf "meshConfig.defaultConfig.discoveryAddress = %q is another control plane's; want %q, or leave it out" . $own) }}
{{- end }}
{{- end }}
{{- if and $pilot.autoscaleEnabled (gt (int $pilot.autoscaleMin) (int $pilot.autoscaleMax)) }}
{{- fail (printf "pilot.autoscaleMin = %d; want at most pilot.autoscaleMax, which is %d" (int $pilot.autoscaleMin) (int $pilot.autoscaleMax)) }}
{{- end }}
{{- end }}

{{- /* Whether proxies ask another authority for certificates and nothing is said about the control plane's own. Then it has the one that
cert-manager's istio-csr puts into the Secret istiod-tls, as istiod does. */ -}}
{{- define "lateen.certifiedElsewhere" -}}
{{- $pilot := include "lateen.pilot" . | fromJson }}
{{- $address := default "" (.Values.global).caAddress }}
{{- $isOwn := regexMatch "^istiod(-[^.]+)?\\.[^.]+\\.svc(\\.[^:]+)?(:[0-9]+)?$" $address }}
{{- $isAuthority := ne (toString ($pilot.env).ENABLE_CA_SERVER) "false" }}
{{- $args := join " " $pilot.extraContainerArgs }}
{{- $says := regexMatch "--(tls-cert|tls-key|client-ca)" $args }}
{{- if not (or (not $address) $isOwn $isAuthority $says) }}true{{ end }}
{{- end }}

{{- /* Istio's levels have scopes, as default:info,ads:debug. Lateen has one level: that of default, or of what has no scope. */ -}}
{{- define "lateen.logLevel" -}}
{{- $level := "info" }}
{{- range splitList "," (toString .) }}
{{- $parts := splitList ":" . }}
{{- if eq (len $parts) 1 }}{{ $level = first $parts }}{{ else if has (first $parts) (list "default" "all") }}{{ $level = last $parts }}{{ end }}
{{- end }}
{{- get (dict "none" "error" "fatal" "error" "error" "error" "warn" "warn" "warning" "warn" "info" "info" "debug" "debug" "trace" "debug") (trim $level) | default "info" }}
{{- end }}

{{- /* The memory limit is four times the request if none is given: the program keeps below its limit, so it is never unlimited. */ -}}
{{- define "lateen.resources" -}}
{{- $resources := deepCopy .resources }}
{{- $limits := default dict $resources.limits }}
{{- $request := toString ($resources.requests).memory }}
{{- if and (not $limits.memory) (regexMatch "^[0-9]+([kMGT]i?)?$" $request) }}
{{- $_ := set $limits "memory" (printf "%d%s" (mul 4 (atoi (regexFind "^[0-9]+" $request))) (regexReplaceAll "^[0-9]+" $request "")) }}
{{- end }}
{{- $_ := set $resources "limits" $limits }}
{{- toYaml $resources }}
{{- end }}

{{- /* What a Service of the control plane has beside its name. */ -}}
{{- define "lateen.serviceSpec" -}}
{{- $pilot := include "lateen.pilot" . | fromJson }}
  {{- with $pilot.ipFamilyPolicy }}
  ipFamilyPolicy: {{ . }}
  {{- end }}
  {{- with $pilot.ipFamilies }}
  ipFamilies:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
  - name: https-dns
    port: 15012
    protocol: TCP
    targetPort: 15012
  - name: https-webhook
    port: 443
    protocol: TCP
    targetPort: 15017
  - name: http-monitoring
    port: 15014
    protocol: TCP
    targetPort: 15014
  selector:
    {{- include "lateen.selector" . | nindent 4 }}
{{- end }}

{{- /* The tags of the revision, each once. */ -}}
{{- define "lateen.tags" -}}
{{- range .Values.revisionTags }}
{{- if eq . (include "lateen.revision" $) }}
{{- fail (printf "revisionTags has %q, which is the revision itself; want another name" .) }}
{{- end }}
{{- end }}
{{- .Values.revisionTags | uniq | toJson }}
{{- end }}
