package incluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// configuresMachine makes the files of a machine of a WorkloadGroup.
func (i *istioctl) configuresMachine(t *testing.T) {
	group, dir := filepath.Join(t.TempDir(), "group.yaml"), t.TempDir()
	made, err := i.try(t, "experimental", "workload", "group", "create", "--name", "vm", "--namespace", "default",
		"--labels", "app=vm", "--serviceAccount", "default")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(group, []byte(made), 0o600))
	i.says(t, []step{
		{"validate -f " + group, []string{"is valid"}},
		{"experimental workload entry configure --autoregister --ingressIP 10.0.0.1 -f " + group + " -o " + dir,
			[]string{"was successful"}},
	})
	for name, want := range map[string]string{
		"cluster.env":   "ISTIO_META_AUTO_REGISTER_GROUP='vm'",
		"mesh.yaml":     "ISTIO_META_AUTO_REGISTER_GROUP: vm",
		"hosts":         "10.0.0.1 istiod.istio-system.svc",
		"root-cert.pem": "BEGIN CERTIFICATE",
		"istio-token":   ".",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(text), want, name)
	}
}
