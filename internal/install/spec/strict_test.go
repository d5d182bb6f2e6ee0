package spec

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const strictMesh = `apiVersion: maistra.io/v2
kind: ServiceMeshControlPlane
metadata: {name: basic, namespace: mesh}
spec:
  security: {dataPlane: {mtls: true}, controlPlane: {mtls: false}}
  proxy: {networking: {clusterDomain: example.local}}
  gateways: {enabled: false}
`

// TestMutualTLSOfMaistraMakesItsObjects: those of Maistra's operator, before the Deployment, so
// that the mesh is never open. Without the field there are none.
func TestMutualTLSOfMaistraMakesItsObjects(t *testing.T) {
	policies := func(earlier *Spec, text string) (found []string) {
		s, notes, err := Read(Input{Image: "lateen:test", Earlier: earlier, Documents: []Document{{Text: text}}})
		require.NoError(t, err)
		if earlier == nil {
			require.Equal(t, []Note{{
				"spec.security.controlPlane.mtls", "false",
				"without effect: proxies always reach the control plane by TLS",
			}}, notes)
		}
		objects, err := s.Objects(nil)
		require.NoError(t, err)
		for _, o := range objects {
			switch o.GetKind() {
			case "PeerAuthentication", "DestinationRule":
				out, err := yaml.Marshal(o.Object["spec"])
				require.NoError(t, err)
				found = append(found, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()+"\n"+string(out))
			case "Deployment":
				found = append(found, "Deployment")
			}
		}
		return found
	}
	require.Equal(t, []string{
		"PeerAuthentication mesh/default\nmtls:\n  mode: STRICT\n",
		"DestinationRule mesh/api-server\nhost: kubernetes.default.svc.example.local\n" +
			"trafficPolicy:\n  tls:\n    mode: DISABLE\n",
		"DestinationRule mesh/default\nhost: '*.local'\ntrafficPolicy:\n  tls:\n    mode: ISTIO_MUTUAL\n",
		"Deployment",
	}, policies(nil, strictMesh))
	require.Equal(t, []string{"Deployment"}, policies(&Spec{Strict: true},
		"{apiVersion: maistra.io/v2, kind: ServiceMeshControlPlane, spec: {security: {dataPlane: {mtls: false}}, "+
			"gateways: {enabled: false}}}"))
}
