package incluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const attachedClass = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: own}
spec: {controllerName: istio.io/gateway-controller}
`

const attachedGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: default}
spec:
  gatewayClassName: own
  addresses: [{type: Hostname, value: public.default.svc.cluster.local}]
  allowedListeners: {namespaces: {from: Same}}
  listeners:
  - {name: http, port: %d, protocol: HTTP}
  - {name: closed, port: 53, protocol: UDP}
`

const gatewayService = `apiVersion: v1
kind: Service
metadata: {name: public, namespace: default}
spec:
  externalIPs: [192.0.2.9]
  selector: {app: public}
  ports: [{name: http, port: 80}, {name: other, port: 81}]
`

const attachedRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s, namespace: default}
spec:
  parentRefs: [{name: public, sectionName: http}]
  hostnames: ["%[1]s.test"]
  rules: [{backendRefs: [{name: public, port: %d}]}]
`

// manyRoutes attach at once.
const manyRoutes = 60

// TestGatewayAPIStatusesAreWritten shows the statuses of the Gateway API on a real API server,
// written with the rights of the manifests, once each.
func TestGatewayAPIStatusesAreWritten(t *testing.T) {
	c := startCluster(t)
	c.api.InstallIstioCRDs(t)
	c.api.InstallGatewayAPICRDs(t)
	c.applyManifests(t)
	first := c.start(t)
	first.ready(t)
	first.leads(t)

	c.apply(t, attachedClass)
	c.apply(t, gatewayService)
	c.apply(t, fmt.Sprintf(attachedGateway, 80))
	eventually(t, func(ct require.TestingT) {
		class := &gatewayv1.GatewayClass{}
		c.read(ct, attachedClass, class)
		requireCondition(ct, class.Status.Conditions, "Accepted True Accepted", 1)
		g := &gatewayv1.Gateway{}
		c.read(ct, fmt.Sprintf(attachedGateway, 80), g)
		requireCondition(ct, g.Status.Conditions, "Accepted True ListenersNotValid", 1)
		requireCondition(ct, g.Status.Conditions, "Programmed True Programmed", 1)
		require.Len(ct, g.Status.Addresses, 1)
		require.Equal(ct, "192.0.2.9", g.Status.Addresses[0].Value)
		require.Equal(ct, gatewayv1.IPAddressType, *g.Status.Addresses[0].Type)
		require.Len(ct, g.Status.Listeners, 2)
		requireCondition(ct, g.Status.Listeners[0].Conditions, "Programmed True Programmed", 1)
		requireCondition(ct, g.Status.Listeners[1].Conditions, "Accepted False UnsupportedProtocol", 1)
		require.Empty(ct, g.Status.Listeners[1].SupportedKinds)
	})
	written := first.metric(`lateen_status_writes_total{result="written"}`)

	for i := range manyRoutes {
		c.apply(t, fmt.Sprintf(attachedRoute, fmt.Sprint("r", i), 80))
	}
	c.attaches(t, 80, manyRoutes)
	c.routeSays(t, "r0", 1, "Accepted True Accepted", "ResolvedRefs True ResolvedRefs")
	eventually(t, func(ct require.TestingT) {
		for i := range manyRoutes {
			require.NotEmpty(ct, c.httpRoute(ct, fmt.Sprint("r", i)).Status.Parents)
		}
	})
	atMost := written + manyRoutes + manyRoutes/2 // the Gateway's status is written in intervals
	require.LessOrEqual(t, first.metric(`lateen_status_writes_total{result="written"}`), atMost)

	c.deploys(t, first)
	c.attachMore(t)

	c.apply(t, fmt.Sprintf(attachedRoute, "r0", 9))
	c.routeSays(t, "r0", 2, "Accepted True Accepted", "ResolvedRefs False BackendNotFound")
	c.apply(t, fmt.Sprintf(attachedGateway, 81)) // all routes are resolved anew, and none says another thing
	eventually(t, func(ct require.TestingT) {
		g := &gatewayv1.Gateway{}
		c.read(ct, fmt.Sprintf(attachedGateway, 81), g)
		requireCondition(ct, g.Status.Listeners[0].Conditions, "Programmed True Programmed", 2)
	})
	version := c.httpRoute(t, "r1").ResourceVersion

	// Another replica takes over, and writes nothing that stands there.
	second := c.start(t)
	second.ready(t)
	first.stop()
	second.leads(t)
	c.apply(t, fmt.Sprintf(attachedRoute, "r0", 81))
	c.routeSays(t, "r0", 3, "ResolvedRefs True ResolvedRefs")
	second.wrote(t, 1)
	require.Equal(t, version, c.httpRoute(t, "r1").ResourceVersion)

	// A class that goes to another controller takes Lateen's statuses with it.
	require.NoError(t, c.on(object(t, attachedClass)).Delete(t.Context(), "own", metav1.DeleteOptions{}))
	eventually(t, func(ct require.TestingT) { require.Empty(ct, c.httpRoute(ct, "r1").Status.Parents) })
	for _, r := range []*replica{first, second} {
		require.NotContains(t, r.said(), "forbidden", "all that it does, it may do")
	}
}

// attaches waits until the listener on a port counts so many routes.
func (c *cluster) attaches(t *testing.T, port, routes int) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		g := &gatewayv1.Gateway{}
		c.read(ct, fmt.Sprintf(attachedGateway, port), g)
		require.Equal(ct, int32(routes), g.Status.Listeners[0].AttachedRoutes)
	})
}

// routeSays waits until a route has conditions of a generation at its one parent.
func (c *cluster) routeSays(t *testing.T, name string, generation int64, conditions ...string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		r := c.httpRoute(ct, name)
		require.Len(ct, r.Status.Parents, 1)
		for _, want := range conditions {
			requireCondition(ct, r.Status.Parents[0].Conditions, want, generation)
		}
	})
}

func (c *cluster) httpRoute(t require.TestingT, name string) *gatewayv1.HTTPRoute {
	r := &gatewayv1.HTTPRoute{}
	c.read(t, fmt.Sprintf(attachedRoute, name, 80), r)
	return r
}

// read reads the object of a manifest from the API server.
func (c *cluster) read(t require.TestingT, manifest string, into any) {
	o, err := parse(manifest)
	require.NoError(t, err)
	have := c.get(t, o.GetKind(), o.GetNamespace(), o.GetName(), o.GroupVersionKind().Group)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(have.Object, into))
}

// requireCondition requires a condition, as "type status reason", of a generation.
func requireCondition(t require.TestingT, all []metav1.Condition, want string, generation int64) {
	var kind, status, reason string
	_, err := fmt.Sscan(want, &kind, &status, &reason)
	require.NoError(t, err)
	c := meta.FindStatusCondition(all, kind)
	require.NotNil(t, c, kind)
	require.Equal(t, want, fmt.Sprint(c.Type, " ", c.Status, " ", c.Reason), c.Message)
	require.Equal(t, generation, c.ObservedGeneration, want)
}
