package gateways

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/testkit/cost"
)

// overlaid returns the object of a kind of a Gateway with one overlay under a key.
func overlaid(t testing.TB, render Render, key, text string) object {
	t.Helper()
	d := &model.GatewayDeployment{
		Gateway: model.Meta{Kind: kinds.KubernetesGateway, Namespace: "shop", Name: "edge", UID: "1"},
		Name:    "edge-lateen", Class: "lateen",
		Infrastructure: model.Infrastructure{ServiceType: "LoadBalancer"},
		Ports:          []model.GatewayPort{{Port: 80, Protocol: model.HTTP}},
	}
	all := objectsOf(d, []overlay{{from: "shop/own", data: map[string]string{key: text}}}, render)
	of := map[string]string{
		"deployment": deploymentKind, "service": "Service", "serviceAccount": accountKind,
		"horizontalPodAutoscaler": "HorizontalPodAutoscaler", "podDisruptionBudget": "PodDisruptionBudget",
	}[key]
	at := slices.IndexFunc(all, func(o object) bool { return o.kind == of })
	require.GreaterOrEqual(t, at, 0, key)
	return all[at]
}

func inPod(spec string) string { return "spec: {template: {spec: {" + spec + "}}}" }

func inProxy(fields string) string { return inPod("containers: [{name: istio-proxy, " + fields + "}]") }

// refusedParameters are overlays by their key and text, with the field that is refused.
func refusedParameters() map[[2]string]string {
	all := map[[2]string]string{
		{"service", "spec: {externalIPs: [192.0.2.1]}"}:                                    "spec.externalIPs",
		{"service", "spec: {selector: {app: other}}"}:                                      "spec.selector",
		{"service", "spec: {selector: null}"}:                                              "spec.selector",
		{"service", "spec: {$patch: replace, ports: [{port: 80}]}"}:                        "spec.selector",
		{"service", "spec: {type: ExternalName, externalName: a.example}"}:                 "spec.externalName",
		{"service", "spec: {type: ExternalName}"}:                                          "spec.type",
		{"service", "metadata: {labels: {gateway.istio.io/managed: a}}"}:                   "gateway.istio.io/managed",
		{"service", "spec: {$setElementOrder/ports: [{port: 80}]}"}:                        "$setElementOrder/ports",
		{"horizontalPodAutoscaler", "spec: {maxReplicas: 2, scaleTargetRef: {name: all}}"}: "spec.scaleTargetRef",
		{"podDisruptionBudget", "spec: {minAvailable: 1, selector: {}}"}:                   "",
		{"podDisruptionBudget", "spec: {minAvailable: 1, selector: {matchLabels: null}}"}:  "spec.selector",
		{"podDisruptionBudget", "spec: {selector: {matchLabels: {app: other}}}"}:           "spec.selector",
		{"serviceAccount", "secrets: [{name: a}]"}:                                         "secrets",
	}
	for text, want := range map[string]string{
		"spec: {selector: {matchLabels: {a: b}}}":        "spec.selector",
		inPod("hostNetwork: true"):                       "spec.template.spec.hostNetwork",
		inPod("hostPID: true"):                           "spec.template.spec.hostPID",
		inPod("hostIPC: true"):                           "spec.template.spec.hostIPC",
		inPod("hostnetwork: true"):                       "spec.template.spec.hostnetwork",
		inPod("serviceAccountName: root"):                "spec.template.spec.serviceAccountName",
		inPod("serviceAccount: root"):                    "spec.template.spec.serviceAccount",
		inPod("serviceAccountName: null"):                "spec.template.spec.serviceAccountName",
		inPod("$patch: replace, containers: []"):         "spec.template.spec.serviceAccountName",
		inPod("priorityClassName: system-node-critical"): "spec.template.spec.priorityClassName",
		inPod("priority: 2000000000"):                    "spec.template.spec.priority",
		inPod("nodeName: master"):                        "spec.template.spec.nodeName",
		inPod("ephemeralContainers: []"):                 "spec.template.spec.ephemeralContainers",
		inPod("securityContext: {runAsUser: 0}"):         "spec.template.spec.securityContext.runAsUser",
		inPod("securityContext: {runAsNonRoot: false}"):  "securityContext.runAsNonRoot",

		inPod("securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}"): "sysctls[0].name",
		inPod("securityContext: {seccompProfile: {type: Unconfined}}"):           "seccompProfile.type",
		inPod("securityContext: {appArmorProfile: {type: Unconfined}}"):          "appArmorProfile.type",
		inPod("securityContext: {seLinuxOptions: {user: root}}"):                 "seLinuxOptions.user",
		inPod("securityContext: {seLinuxOptions: {type: spc_t}}"):                "seLinuxOptions.type",
		inPod("securityContext: {windowsOptions: {hostProcess: true}}"):          "windowsOptions",
		inPod("volumes: [{name: a, hostPath: {path: /}}]"):                       "volumes[0].hostPath",
		inPod("volumes: [{name: a, csi: {driver: d}}]"):                          "volumes[0].csi",
		inPod("volumes: [{name: a, flexVolume: {driver: d}}]"):                   "volumes[0].flexVolume",
		inPod("volumes: [{name: a, nfs: {server: d, path: /}}]"):                 "volumes[0].nfs",

		inProxy("securityContext: {privileged: true}"):                   "containers[0].securityContext.privileged",
		inProxy("securityContext: {capabilities: {add: [ALL]}}"):         "capabilities.add",
		inProxy("securityContext: {procMount: Unmasked}"):                "procMount",
		inProxy("securityContext: {runAsUser: 0}"):                       "runAsUser",
		inProxy("securityContext: {allowPrivilegeEscalation: true}"):     "allowPrivilegeEscalation",
		inProxy("securityContext: {seccompProfile: {type: Unconfined}}"): "seccompProfile.type",
		inProxy("ports: [{containerPort: 80, hostPort: 80}]"):            "ports[0].hostPort",
		inProxy("ports: [{containerPort: 80, hostIP: 0.0.0.0}]"):         "ports[0].hostIP",
		inProxy("volumeDevices: [{name: a, devicePath: /dev/a}]"):        "volumeDevices",

		inProxy("volumeMounts: [{name: a, mountPath: /a, mountPropagation: Bidirectional}]"): "mountPropagation",
		inProxy("livenessProbe: {httpGet: {port: 80, host: 10.0.0.1}}"):                      "httpGet.host",

		inProxy("lifecycle: {preStop: {tcpSocket: {port: 80, host: 10.0.0.1}}}"):   "preStop.tcpSocket.host",
		inProxy("resources: {requests: {cpu: 11111111111111111111e1000000000}}"):   "",
		inProxy("resources: {requests: {cpu: '11111111111111111111e1000000000'}}"): "resources.requests[cpu]",

		inPod("initContainers: [{name: a, image: a, securityContext: {privileged: true}}]"): "initContainers[0]",

		"spec: {template: {metadata: {labels: {sidecar.istio.io/inject: 'true'}}}}":         "istio.io/inject]",
		"spec: {template: {metadata: {labels: {sidecar.istio.io/inject: null}}}}":           "istio.io/inject]",
		"spec: {template: {metadata: {labels: null}}}":                                      "labels[",
		"spec: {template: {metadata: {annotations: {inject.istio.io/templates: sidecar}}}}": "istio.io/templates",
		"spec: {template: {metadata: {annotations: {sidecar.istio.io/userVolume: '{}'}}}}":  "istio.io/userVolume",
		"spec: {template: {metadata: {annotations: {proxy.istio.io/overrides: '{}'}}}}":     "istio.io/overrides",
		"spec: {template: {metadata: {annotations: {sidecar.istio.io/status: null}}}}":      "istio.io/status",
		"spec: {template: {metadata: {annotations: {" +
			"container.apparmor.security.beta.kubernetes.io/istio-proxy: unconfined}}}}": "container.apparmor",
	} {
		all[[2]string{"deployment", text}] = want
	}
	return all
}

// What parameters may not set is refused, and the answer names the field.
func TestParametersMaySetWhatIsListed(t *testing.T) {
	render := rendered(t)
	for of, want := range refusedParameters() {
		if want == "" {
			continue // as the next, where YAML or the API server refuses it, or it changes nothing
		}
		o := overlaid(t, render, of[0], of[1])
		var invalid *parametersError
		require.ErrorAs(t, o.err, &invalid, "%s", of)
		require.ErrorContains(t, o.err, want, "%s", of)
	}
}

// What Istio's documentation and its users set is in force.
func TestParametersThatAreCommonAreTaken(t *testing.T) {
	render := rendered(t)
	for key, texts := range map[string][]string{
		"deployment": {
			"metadata: {annotations: {proxy.istio.io/note: a}, labels: {a: b}}",
			"spec: {replicas: 4, strategy: {rollingUpdate: {maxSurge: 100%, maxUnavailable: 0}}, minReadySeconds: 5}",
			"spec: {strategy: {$retainKeys: [type], type: Recreate}}",
			"spec: {template: {metadata: {labels: {version: v1, topology.istio.io/network: east, commit: 12e45678}, " +
				"annotations: {prometheus.io/scrape: 'false', a.kubernetes.io/safe-to-evict: 'true'}}}}",
			inPod(`nodeSelector: {edge: "true"}, tolerations: [{operator: Exists}], terminationGracePeriodSeconds: 60,
  priorityClassName: high, hostNetwork: false,
  topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}],
  affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1,
    podAffinityTerm: {topologyKey: host}}]}}`),
			inPod("securityContext: {runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}, " +
				"sysctls: [{name: net.ipv4.tcp_keepalive_time, value: '60'}]}"),
			inPod("securityContext: null, volumes: [{name: certs, secret: {secretName: a}}, {name: b, emptyDir: " +
				"{medium: Memory, sizeLimit: 1Gi}}]"),
			inProxy("image: a.example/proxy:1, imagePullPolicy: Always, env: [{name: A, value: '1e1000000000'}], " +
				"resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: '2', memory: null}}"),
			inProxy("securityContext: {runAsUser: null, runAsGroup: null, readOnlyRootFilesystem: true, " +
				"capabilities: {add: [NET_BIND_SERVICE], drop: [ALL]}}, ports: [{containerPort: 8080, name: http}], " +
				"volumeMounts: [{name: certs, mountPath: /etc/certs, readOnly: true}], " +
				"lifecycle: {preStop: {exec: {command: [sleep, '5']}}}, readinessProbe: {periodSeconds: 2}"),
			inPod("containers: [{name: extra, image: extra}], volumes: [{name: istio-data, $patch: delete}]"),
		},
		"service": {
			"metadata: {annotations: {service.beta.kubernetes.io/aws-load-balancer-type: nlb}}",
			`spec: {type: NodePort, externalTrafficPolicy: Local, loadBalancerSourceRanges: [10.0.0.0/8],
  loadBalancerClass: a/b, ports: [{port: 80, nodePort: 30080}], ipFamilyPolicy: PreferDualStack}`,
		},
		"horizontalPodAutoscaler": {
			"spec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, " +
				"name: edge-lateen}, metrics: [{type: Resource, resource: {name: cpu, " +
				"target: {type: Utilization, averageUtilization: 80}}}]}",
		},
		"podDisruptionBudget": {"spec: {maxUnavailable: 50%}"},
		"serviceAccount": {
			"metadata: {annotations: {eks.amazonaws.com/role-arn: a}}", "imagePullSecrets: [{name: a}]",
		},
	} {
		for _, text := range texts {
			require.NoError(t, overlaid(t, render, key, text).err, "%s: %s", key, text)
		}
	}
}

// FuzzParameters: whatever parameters say, each object is made of them within seconds, or the error
// is the user's.
func FuzzParameters(f *testing.F) {
	for of := range refusedParameters() {
		f.Add(of[0], of[1])
	}
	render := rendered(f)
	keys := []string{"deployment", "service", "serviceAccount", "horizontalPodAutoscaler", "podDisruptionBudget"}
	f.Fuzz(func(t *testing.T, key, text string) {
		if !slices.Contains(keys, key) {
			return
		}
		done := cost.Bound(t, 256<<20)
		o := overlaid(t, render, key, text)
		done()
		if o.err != nil {
			var invalid *parametersError
			require.ErrorAs(t, o.err, &invalid)
			return
		}
		require.NotNil(t, o.body)
	})
}
