package unions

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"
)

// TestEachUnionKeepsTheMemberOfThePatch: merged by Kubernetes' strategic merge, as the callers do.
func TestEachUnionKeepsTheMemberOfThePatch(t *testing.T) {
	read := func(text string) (o map[string]any) {
		require.NoError(t, yaml.Unmarshal([]byte(text), &o))
		return o
	}
	under, over := read(`
spec:
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
  template:
    spec:
      securityContext: {seccompProfile: {type: Localhost, localhostProfile: a}}
      volumes: [{name: a, emptyDir: {}}, {name: b, configMap: {name: b}}, {name: c, emptyDir: {medium: Memory}}]
      initContainers: [{name: first, env: [{name: X, value: a}]}]
      containers:
      - name: app
        livenessProbe: {httpGet: {port: 1}, periodSeconds: 3}
        lifecycle: {preStop: {exec: {command: [a]}}}
        env: [{name: X, value: a}, {name: W, valueFrom: {fieldRef: {fieldPath: b}}}, {name: Z, value: kept}]
        volumeMounts: [{mountPath: /a, name: a, subPath: x}]
`), read(`
spec:
  strategy: {type: Recreate}
  template:
    spec:
      securityContext: {seccompProfile: {type: RuntimeDefault}}
      volumes: [{name: a, csi: {driver: d}}, {name: b, secret: {secretName: b}}, {name: c, emptyDir: {sizeLimit: 1Gi}}]
      initContainers: [{name: first, env: [{name: X, valueFrom: {fieldRef: {fieldPath: b}}}]}]
      containers:
      - name: app
        livenessProbe: {grpc: {port: 2}}
        lifecycle: {preStop: {sleep: {seconds: 1}}}
        env: [{name: X, valueFrom: {fieldRef: {fieldPath: b}}}, {name: W, valueFrom: {secretKeyRef: {name: s}}}]
        volumeMounts: [{mountPath: /a, name: a, subPathExpr: $(W)}]
`)
	ReplaceInWorkload(under, over)
	got, err := strategicpatch.StrategicMergeMapPatch(under, over, appsv1.Deployment{})
	require.NoError(t, err)
	require.Equal(t, read(`
spec:
  strategy: {type: Recreate}
  template:
    spec:
      securityContext: {seccompProfile: {type: RuntimeDefault}}
      volumes: [{name: a, csi: {driver: d}}, {name: b, secret: {secretName: b}},
        {name: c, emptyDir: {medium: Memory, sizeLimit: 1Gi}}]
      initContainers: [{name: first, env: [{name: X, valueFrom: {fieldRef: {fieldPath: b}}}]}]
      containers:
      - name: app
        livenessProbe: {grpc: {port: 2}, periodSeconds: 3}
        lifecycle: {preStop: {sleep: {seconds: 1}}}
        env: [{name: X, valueFrom: {fieldRef: {fieldPath: b}}}, {name: W, valueFrom: {secretKeyRef: {name: s}}},
          {name: Z, value: kept}]
        volumeMounts: [{mountPath: /a, name: a, subPathExpr: $(W)}]
`), map[string]any(got))
}
