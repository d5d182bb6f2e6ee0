package incluster

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const ingressClass = `apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: %s}
spec: {controller: %s}
`

const ingress = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s, namespace: default}
spec:
  ingressClassName: %s
  defaultBackend: {service: {name: kubernetes, port: {number: 443}}}
`

const gateway = `apiVersion: v1
kind: Service
metadata: {name: istio-ingressgateway, namespace: istio-system}
spec:
  type: LoadBalancer
  externalIPs: [192.0.2.9]
  ports: [{name: http, port: 80}]
`

// ingresses: the Ingresses of Istio's class have in their status where the gateway is reached, as
// soon as a cloud has given its Service an address, and others do not.
func (c *cluster) ingresses(t *testing.T) {
	c.apply(t, fmt.Sprintf(ingressClass, "mesh", "istio.io/ingress-controller"))
	c.apply(t, fmt.Sprintf(ingressClass, "other", "example.com/other"))
	c.apply(t, fmt.Sprintf(ingress, "shop", "mesh"))
	c.apply(t, fmt.Sprintf(ingress, "elsewhere", "other"))
	c.apply(t, gateway)
	c.isReachedAt(t, "shop", `[{"ip":"192.0.2.9"}]`)
	c.patch(t, "Service", root, "istio-ingressgateway",
		`{"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}}`, "status")
	c.isReachedAt(t, "shop", `[{"ip":"192.0.2.9"},{"hostname":"lb.example.com"}]`)
	c.isReachedAt(t, "elsewhere", `null`)
}

// noGateway: with the Service, its addresses go.
func (c *cluster) noGateway(t *testing.T) {
	o := object(t, gateway)
	require.NoError(t, c.on(o).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
	c.isReachedAt(t, "shop", `null`)
}

// isReachedAt waits until the status of an Ingress has addresses.
func (c *cluster) isReachedAt(t *testing.T, name, want string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		o := c.get(ct, "Ingress", "default", name)
		list, _, err := unstructured.NestedSlice(o.Object, "status", "loadBalancer", "ingress")
		require.NoError(ct, err)
		have, err := json.Marshal(list)
		require.NoError(ct, err)
		require.Equal(ct, want, string(have))
	})
}
