package precheck

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/cluster/inject"
)

const workloads = `apiVersion: apps/v1
kind: Deployment
metadata: {name: fine, namespace: shop}
spec: {template: {spec: {containers: [{name: app, image: app}]}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: wrong, namespace: shop}
spec:
  template:
    metadata:
      annotations:
        sidecar.istio.io/interceptionMode: MIRROR
        sidecar.istio.io/proxyCPU: fast
    spec: {containers: [{name: app, image: app}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  jobTemplate:
    spec:
      template:
        metadata: {annotations: {proxy.istio.io/config: "interceptionMode: MIRROR"}}
        spec: {containers: [{name: app, image: app}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: templates, namespace: shop}
spec:
  template:
    metadata: {annotations: {inject.istio.io/templates: mine}}
    spec: {containers: [{name: app, image: app}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: declines, namespace: shop}
spec:
  template:
    metadata: {labels: {sidecar.istio.io/inject: "false"}, annotations: {sidecar.istio.io/interceptionMode: MIRROR}}
    spec: {containers: [{name: app, image: app}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: stays, namespace: shop}
spec:
  template:
    metadata: {annotations: {proxy.istio.io/config: "discoveryAddress: istiod.istio-system.svc:15012"}}
    spec: {containers: [{name: app, image: app}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: comes, namespace: shop}
spec:
  template:
    metadata: {annotations: {proxy.istio.io/config: "discoveryAddress: istiod-lateen.istio-system.svc:15012"}}
    spec: {containers: [{name: app, image: app}]}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: of-a-deployment
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: fine, uid: a, controller: true}]
spec: {template: {spec: {containers: [{name: app, image: app}]}}}
---
apiVersion: v1
kind: Pod
metadata:
  name: asks-itself
  namespace: silent
  labels: {sidecar.istio.io/inject: "true"}
  annotations: {traffic.sidecar.istio.io/excludeInboundPorts: http}
spec: {containers: [{name: app, image: app}]}
---
apiVersion: v1
kind: Pod
metadata: {name: says-nothing, namespace: silent, annotations: {sidecar.istio.io/interceptionMode: MIRROR}}
spec: {containers: [{name: app, image: app}]}
`

// TestWorkloadsAreInjected: what would be refused when the Pods of a namespace are made anew is
// known before.
func TestWorkloadsAreInjected(t *testing.T) {
	injector, err := inject.New(inject.Options{Namespace: "istio-system"}, inject.Texts{
		Values: `{"global": {"proxy": {"image": "example.com/proxy:1"}}}`,
	})
	require.NoError(t, err)
	namespaces := map[string]map[string]string{"shop": {"istio-injection": "enabled"}}
	checker, _ := New("istio-system", nil)
	checker.Discovery = "istiod-lateen.istio-system.svc:15012"
	var got []string
	for document := range strings.SplitSeq(workloads, "---\n") {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &o.Object))
		v, ok := checker.Workload(injector, o, namespaces[o.GetNamespace()])
		switch {
		case !ok:
			got = append(got, v.Object()+": not asked")
		case v.Go():
			got = append(got, v.Object()+": go")
		}
		for _, f := range v.Findings {
			if ok {
				got = append(got, fmt.Sprintf("%s: %s = %s: %s", v.Object(), f.Field, f.Value, f.Why))
			}
		}
	}
	require.Equal(t, []string{
		"Deployment shop/fine: go",
		"StatefulSet shop/wrong: spec.template.metadata.annotations[sidecar.istio.io/interceptionMode] = MIRROR: " +
			"want REDIRECT, TPROXY or NONE",
		"StatefulSet shop/wrong: spec.template.metadata.annotations[sidecar.istio.io/proxyCPU] = fast: " +
			"want a quantity, as 100m or 128Mi",
		"CronJob shop/nightly: spec.jobTemplate.spec.template.metadata.annotations[proxy.istio.io/config] = " +
			"interceptionMode: MIRROR: want the fields of Istio's ProxyConfig in YAML: proto: (line 1:21): " +
			`invalid value for enum field interceptionMode: "MIRROR"`,
		`Deployment shop/templates:  = : metadata.annotations[inject.istio.io/templates] = "mine": ` +
			`the template "mine" is not there; have ["gateway" "sidecar"]`,
		"Deployment shop/declines: not asked",
		"Deployment shop/stays: spec.template.metadata.annotations[proxy.istio.io/config] = discoveryAddress: " +
			"istiod.istio-system.svc:15012: the proxies would ask that control plane, whoever injects them; want " +
			"none, for that of the revision",
		"Deployment shop/comes: go",
		"ReplicaSet shop/of-a-deployment: not asked",
		"Pod silent/asks-itself: metadata.annotations[traffic.sidecar.istio.io/excludeInboundPorts] = http: " +
			"want ports, as 8080,9090",
		"Pod silent/says-nothing: not asked",
	}, got)
}
