package inspect

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: web, image: "web:1"}]}}}
`

// injectWith runs the command with a standard input.
func injectWith(t *testing.T, in string, args ...string) (out, says string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := console.Root(Inject())
	root.SetArgs(append([]string{"inject"}, args...))
	root.SetIn(strings.NewReader(in))
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

func TestInject(t *testing.T) {
	dir := t.TempDir()
	file, values, output := filepath.Join(dir, "in"), filepath.Join(dir, "values"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(file, []byte(deployment), 0o600))
	require.NoError(t, os.WriteFile(values, []byte("{global: {hub: example.com, tag: v1}}"), 0o600))

	out, says, err := injectWith(t, deployment, "-f", "-")
	require.NoError(t, err)
	require.Empty(t, says)
	require.Contains(t, out, "image: lateen-proxy\n")

	out, _, err = injectWith(t, "", "-f", file, "--values", values, "--output", output, "--revision", "canary")
	require.NoError(t, err)
	require.Empty(t, out)
	written, err := os.ReadFile(output)
	require.NoError(t, err)
	require.Contains(t, string(written), "image: example.com/proxyv2:v1\n")
	require.Contains(t, string(written), "value: istiod-canary.istio-system.svc:15012\n")

	out, _, err = injectWith(t, deployment, "-f", "-", "--proxy-image", "example.com/p:1", "--native-sidecars")
	require.NoError(t, err)
	require.Contains(t, out, "image: example.com/p:1\n")
	require.Contains(t, out, "restartPolicy: Always\n")

	out, says, err = injectWith(t, deployment, "-f", "-", "-n", "kube-system")
	require.NoError(t, err)
	require.Equal(t, deployment, out)
	require.Contains(t, says, "Deployment kube-system/web gets no proxy: the namespace kube-system belongs")

	require.NoError(t, os.WriteFile(values, []byte("global: {proxy: fast}"), 0o600))
	out, _, err = injectWith(t, deployment, "-f", "-", "--values", values)
	require.ErrorContains(t, err, "values: global.proxy is one value; want an object")
	require.Empty(t, out)
	out, _, err = injectWith(t, "kind: Pod\napiVersion: v1\nspec: 5\n", "-f", "-")
	require.ErrorContains(t, err, "nothing is written")
	require.Empty(t, out)
	_, _, err = injectWith(t, "", "-f", filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestInjectTellsWhatHasNoEffect: of ProxyConfigs among the documents, and of where a Pod's spans
// should go.
func TestInjectTellsWhatHasNoEffect(t *testing.T) {
	const pod = `apiVersion: v1
kind: Pod
metadata:
  name: traced
  namespace: shop
  annotations: {proxy.istio.io/config: "tracing: {sampling: 5, zipkin: {address: 'zipkin:9411'}}"}
spec: {containers: [{name: web, image: "web:1"}]}
---
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: two, namespace: shop}
spec: {concurrency: 2}
`
	out, says, err := injectWith(t, pod, "-f", "-")
	require.NoError(t, err)
	require.Contains(t, out, "name: istio-proxy\n")
	require.Contains(t, says, "Pod shop/traced: warning: metadata.annotations[proxy.istio.io/config]: tracing names")
	require.Contains(t, says, "ProxyConfig shop/two: warning: it has no effect on the workloads of these documents")
}
