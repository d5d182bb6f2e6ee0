package installer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

const estateFiles = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: fine}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews}}]}]}
---
apiVersion: v1
kind: List
items:
- apiVersion: extensions.istio.io/v1alpha1
  kind: WasmPlugin
  metadata: {name: lua, namespace: shop}
  spec: {}
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata: {name: shadowed, namespace: shop}
  spec:
    hosts: [reviews]
    http: [{route: [{destination: {host: a}}]}, {route: [{destination: {host: b}}]}]
---
replicas: 3
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: bypassed, namespace: shop}
spec:
  template:
    metadata: {labels: {sidecar.istio.io/inject: "true"}, annotations: {sidecar.istio.io/interceptionMode: MIRROR}}
    spec: {containers: [{name: app, image: app}]}
`

// prechecked runs the command and returns what it prints.
func prechecked(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	w := terminal.New(&out, func(string) string { return "" })
	cmd := newPrecheck(w, w)
	cmd.SetOut(&out)
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestPrecheckOfFiles asks no API server. A template among the files is left out, and no reason
// against.
func TestPrecheckOfFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "below"), 0o755))
	for name, text := range map[string]string{
		"below/all.yaml": estateFiles,
		"chart.yml":      "{{ if .Values.on }}\nkind: Service\n{{ end }}\n",
		"README.md":      "kind: Service",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	out, err := prechecked(t, dir, "--all")
	require.ErrorIs(t, err, command.ErrFailed)
	for _, want := range []string{
		`VirtualService default/fine +go`,
		`VirtualService shop/shadowed +warned +spec.http\[1\]`,
		`WasmPlugin shop/lua +no go`,
		`Deployment shop/bypassed +no go`,
		`file .*chart.yml +differs +left out from here on, as it is no YAML`,
		`3 of 5 objects: go`,
	} {
		require.Regexp(t, want, out)
	}
	require.NotContains(t, out, "README")
	out, err = prechecked(t, filepath.Join(dir, "chart.yml"), "-o", "json")
	require.NoError(t, err, out)
	_, err = prechecked(t, filepath.Join(dir, "missing"))
	require.ErrorContains(t, err, "missing")
}
