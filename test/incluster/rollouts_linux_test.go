package incluster

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

var rollouts = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}

// rollout is one that moves to 10 and to 50 percent, and waits at each for a person.
const rollout = `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: "example.com/app:%[2]s", ports: [{name: http, containerPort: 8080}]}]}
  strategy:
    canary:
      %[3]s
      steps: [{setWeight: 10}, %[4]s{pause: {}}, {setWeight: 50}, {pause: {}}]
`

const (
	byHost = `canaryService: by-host-canary
      stableService: by-host-stable
      trafficRouting:
        managedRoutes: [{name: by-header}]
        istio: {virtualService: {name: by-host, routes: [primary]}}`
	byHeader = `{setHeaderRoute: {name: by-header, match: [{headerName: canary, headerValue: {exact: "1"}}]}}, `
	bySubset = `trafficRouting:
        istio:
          virtualService: {name: by-subset, routes: [primary]}
          destinationRule: {name: by-subset, canarySubsetName: canary, stableSubsetName: stable}`
)

// routedByArgo are the objects of which Argo Rollouts edits weights, selectors and labels.
const routedByArgo = `apiVersion: v1
kind: Service
metadata: {name: by-host-stable}
spec: {selector: {app: by-host}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: by-host-canary}
spec: {selector: {app: by-host}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: by-host}
spec:
  hosts: [by-host.example.com]
  http:
  - name: primary
    route:
    - {destination: {host: by-host-stable}, weight: 100}
    - {destination: {host: by-host-canary}, weight: 0}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: by-host}
spec:
  hosts: [by-host.example.com]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: DNS
---
apiVersion: v1
kind: Service
metadata: {name: by-subset}
spec: {selector: {app: by-subset}, ports: [{name: http, port: 80, targetPort: http}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: by-subset}
spec:
  hosts: [by-subset]
  http:
  - name: primary
    route:
    - {destination: {host: by-subset, subset: stable}, weight: 100}
    - {destination: {host: by-subset, subset: canary}, weight: 0}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: by-subset}
spec:
  host: by-subset
  subsets:
  - {name: stable, labels: {app: by-subset}}
  - {name: canary, labels: {app: by-subset}}
`

// TestArgoRolloutsMovesWeights: Argo Rollouts' controller, unchanged, moves weights between two
// Services, after a route by a header, and between two subsets, step by step. One rollout is
// promoted, the other is aborted.
func TestArgoRolloutsMovesWeights(t *testing.T) {
	binary := tool.Path(t, "rollouts", "estate")
	e := newEstate(t)
	e.api.InstallCRDs(t, "../estate/rollouts", "github.com/argoproj/argo-rollouts",
		"manifests", "crds", "*-crd.yaml")
	e.applyAll(t, routedByArgo)
	e.runArgoRollouts(t, binary)
	parts := map[string][2]string{"by-host": {byHost, byHeader}, "by-subset": {bySubset, ""}}
	for name, p := range parts {
		e.applyAll(t, fmt.Sprintf(rollout, name, "v1", p[0], p[1]))
	}
	for name := range parts {
		e.hasRolloutPhase(t, name, "Healthy")
	}
	host, subset := "by-host.example.com", "by-subset."+tested+".svc.cluster.local"
	routed(t, e.sidecar, host, "by-host-stable 100")
	routed(t, e.sidecar, subset, "stable 100")

	for name, p := range parts {
		e.applyAll(t, fmt.Sprintf(rollout, name, "v2", p[0], p[1]))
	}
	routed(t, e.sidecar, host, "by-host-canary 100", "by-host-stable 90, by-host-canary 10")
	routed(t, e.sidecar, subset, "stable 90, canary 10")
	for name := range parts {
		e.hasRolloutPhase(t, name, "Paused")
	}
	e.areAccepted(t, kinds.VirtualService, kinds.DestinationRule)

	const resume = `{"status": {"pauseConditions": null}}` // as kubectl argo rollouts promote
	for name := range parts {
		e.patchRollout(t, name, resume)
	}
	routed(t, e.sidecar, host, "by-host-canary 100", "by-host-stable 50, by-host-canary 50")
	routed(t, e.sidecar, subset, "stable 50, canary 50")
	for name := range parts {
		e.hasRolloutPhase(t, name, "Paused")
	}

	e.patchRollout(t, "by-host", `{"status": {"abort": true}}`) // as kubectl argo rollouts abort
	e.hasRolloutPhase(t, "by-host", "Degraded")
	routed(t, e.sidecar, host, "by-host-stable 100")
	e.patchRollout(t, "by-subset", resume)
	e.hasRolloutPhase(t, "by-subset", "Healthy")
	routed(t, e.sidecar, subset, "stable 100")
	e.areAccepted(t, kinds.VirtualService, kinds.DestinationRule)
	e.hasNoErrors(t)
}

func (e *estate) runArgoRollouts(t *testing.T, binary string) {
	t.Helper()
	args := []string{"--kubeconfig", e.api.KubeconfigOfRelease(t), "--leader-elect=false", "--namespace", tested}
	for _, flag := range []string{"--metricsPort", "--healthzPort"} {
		held, err := port.Reserve()
		require.NoError(t, err)
		t.Cleanup(held.Release)
		args = append(args, flag, fmt.Sprint(netip.MustParseAddrPort(held.Address).Port()))
	}
	runProgram(t, binary, args...)
}

func (e *estate) hasRolloutPhase(t *testing.T, name, phase string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		require.Equal(ct, phase, e.textOf(ct, rollouts, name, "status", "phase"), name)
	})
}

func (e *estate) patchRollout(t *testing.T, name, status string) {
	t.Helper()
	_, err := e.objects.Resource(rollouts).Namespace(tested).Patch(t.Context(), name, types.MergePatchType,
		[]byte(status), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}
