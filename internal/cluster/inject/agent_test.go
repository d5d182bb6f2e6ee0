package inject

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/agent/intercept"
	agent "github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/api/compliance"
)

// fieldsOf are what a kubelet puts into variables of a running Pod.
var fieldsOf = map[string]string{
	"metadata.name": "web-0", "metadata.namespace": "shop", "status.podIP": "10.0.0.7", "status.hostIP": "10.0.0.1",
	"spec.serviceAccountName": "web", "spec.nodeName": "node-1", "limits.cpu": "2", "limits.memory": "1073741824",
}

// environment is what a kubelet sets for a container.
func environment(t *testing.T, c corev1.Container) []string {
	t.Helper()
	var all []string
	for _, e := range c.Env {
		value := e.Value
		switch {
		case e.ValueFrom == nil:
		case e.ValueFrom.FieldRef != nil:
			value = fieldsOf[e.ValueFrom.FieldRef.FieldPath]
			require.NotEmpty(t, value, e.Name)
		default:
			value = fieldsOf[e.ValueFrom.ResourceFieldRef.Resource]
			require.NotEmpty(t, value, e.Name)
		}
		all = append(all, e.Name+"="+value)
	}
	return all
}

// TestOurAgentReadsWhatIsInjected: lateen-agent runs with the arguments, variables and files that a
// Pod gets, and does not leave out any of them.
func TestOurAgentReadsWhatIsInjected(t *testing.T) {
	const pod = `{"metadata": {"name": "web-0", "labels": {"app": "web"}, "annotations": {
		"proxy.istio.io/config": "concurrency: 3\ndrainDuration: 7s\nproxyMetadata: {ISTIO_META_DNS_CAPTURE: \"true\"}",
		"sidecar.istio.io/logLevel": "debug", "traffic.sidecar.istio.io/excludeOutboundPorts": "3306"}},
		"spec": {"containers": [{"name": "web", "image": "web", "ports": [{"containerPort": 8080}],
			"readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}}}]}}`
	injector, err := New(Options{
		Namespace: "istio-system", Revision: "canary", Compliance: compliance.FIPS1403.String(),
	}, Texts{
		Values: `global: {network: net-1, meshID: mesh-1, multiCluster: {clusterName: east}}`,
		Mesh:   "trustDomain: example.com",
	})
	require.NoError(t, err)
	result, err := injector.Inject(Pod{JSON: []byte(pod), Namespace: "shop"})
	require.NoError(t, err)
	var got corev1.Pod
	require.NoError(t, json.Unmarshal(result.JSON, &got))

	proxy := *proxyIn(&got)
	require.Equal(t, "proxy", proxy.Args[0])
	args := make([]string, len(proxy.Args)-1)
	for n, a := range proxy.Args[1:] {
		args[n] = strings.ReplaceAll(a, "$(POD_NAMESPACE)", "shop")
	}
	s, err := agent.Read(agent.Sources{
		Args: args, Environ: environment(t, proxy), Files: fstest.MapFS{
			"etc/istio/pod/labels":      {Data: fmt.Appendf(nil, "app=%q\n", got.Labels["app"])},
			"etc/istio/pod/annotations": {Data: []byte("")},
		},
	})
	require.NoError(t, err)
	require.Empty(t, s.Notices)
	require.Equal(t, "sidecar~10.0.0.7~web-0.shop~shop.svc.cluster.local", s.Node.ID())
	require.Equal(t, "east", s.Node.ClusterID)
	require.Equal(t, "example.com", s.Node.TrustDomain)
	require.Equal(t, compliance.FIPS1403, s.Compliance)
	require.Equal(t, "istiod-canary.istio-system.svc:15012", s.ControlPlane.Address)
	require.Equal(t, s.ControlPlane.Address, s.CA.Address)
	require.Equal(t, 3, s.Envoy.Concurrency)
	require.Equal(t, "debug", s.Envoy.LogLevel)
	require.True(t, s.DNS.Enabled)
	for name, want := range map[string]any{
		"INTERCEPTION_MODE": "REDIRECT", "NETWORK": "net-1", "MESH_ID": "mesh-1", "WORKLOAD_NAME": "web-0",
		"NODE_NAME": "node-1",
	} {
		require.Equal(t, want, s.Node.Metadata[name], name)
	}

	first := got.Spec.InitContainers[0]
	require.Equal(t, []string{"istio-init", "istio-iptables"}, []string{first.Name, first.Args[0]})
	o, err := intercept.Parse(first.Args[1:], intercept.Surroundings{Environ: func(name string) string {
		for _, v := range environment(t, first) {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}})
	require.NoError(t, err)
	require.Equal(t, []string{"log_output_level"}, o.NotInForce)
	require.Equal(t, []uint16{3306}, o.NotOutboundPorts)
	require.Equal(t, []uint16{15090, 15021, 15020}, o.NotInbound)
	require.Equal(t, []uint32{proxyUser}, o.Users)
	require.True(t, o.AllOutbound && o.Inbound.All)
}
