package incluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

const listenerSet = `apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more, namespace: default}
spec:
  parentRef: {name: public}
  listeners:
  - {name: a, port: 8080, protocol: HTTP}
  - {name: b, port: 53, protocol: UDP}
`

const backendTLSPolicy = `apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: secure, namespace: default}
spec:
  targetRefs: [{group: "", kind: Service, name: public}]
  validation:
    hostname: public.test
    caCertificateRefs: [{group: "", kind: ConfigMap, name: backend-ca}]
`

const backendCA = `apiVersion: v1
kind: ConfigMap
metadata: {name: backend-ca, namespace: default}
data:
  ca.crt: |
    `

// attachMore attaches a ListenerSet to the Gateway and a BackendTLSPolicy to its Service. The
// ConfigMap that the policy names is read once somebody names it.
func (c *cluster) attachMore(t *testing.T) {
	c.apply(t, listenerSet)
	eventually(t, func(ct require.TestingT) {
		set := &gatewayv1.ListenerSet{}
		c.read(ct, listenerSet, set)
		requireCondition(ct, set.Status.Conditions, "Accepted True ListenersNotValid", 1)
		requireCondition(ct, set.Status.Conditions, "Programmed True Programmed", 1)
		require.Len(ct, set.Status.Listeners, 2)
		requireCondition(ct, set.Status.Listeners[0].Conditions, "Accepted True Accepted", 1)
		requireCondition(ct, set.Status.Listeners[1].Conditions, "Accepted False UnsupportedProtocol", 1)
		g := &gatewayv1.Gateway{}
		c.read(ct, fmt.Sprintf(attachedGateway, 80), g)
		require.NotNil(ct, g.Status.AttachedListenerSets)
		require.Equal(ct, int32(1), *g.Status.AttachedListenerSets)
	})

	c.apply(t, backendTLSPolicy)
	c.policySays(t, "Accepted False NoValidCACertificate", "ResolvedRefs False InvalidCACertificateRef")
	pem := strings.TrimSpace(certs.NewAuthority(t, "the backend's").PEM)
	manifest := backendCA + strings.ReplaceAll(pem, "\n", "\n    ") + "\n"
	c.apply(t, manifest)
	c.policySays(t, "Accepted True Accepted", "ResolvedRefs True ResolvedRefs")
	require.NoError(t, c.on(object(t, manifest)).Delete(t.Context(), "backend-ca", metav1.DeleteOptions{}))
	c.policySays(t, "Accepted False NoValidCACertificate", "ResolvedRefs False InvalidCACertificateRef")
}

// policySays waits until the policy has conditions at the Gateway.
func (c *cluster) policySays(t *testing.T, conditions ...string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		p := &gatewayv1.BackendTLSPolicy{}
		c.read(ct, backendTLSPolicy, p)
		require.Len(ct, p.Status.Ancestors, 1)
		require.Equal(ct, gatewayv1.ObjectName("public"), p.Status.Ancestors[0].AncestorRef.Name)
		for _, want := range conditions {
			requireCondition(ct, p.Status.Ancestors[0].Conditions, want, 1)
		}
	})
}
