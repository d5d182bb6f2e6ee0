package workload

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestFilesOfAMachine holds them, of a group that says everything and of one that says little.
func TestFilesOfAMachine(t *testing.T) {
	for name, m := range map[string]Machine{
		"all": {
			Defaults: map[string]any{
				"discoveryAddress": "old:15012", "concurrency": 2, "proxyMetadata": map[string]any{"A": "b"},
			},
			TrustDomain: "mesh.test", ClusterID: "east", Network: "far", Discovery: "istiod-v2.istio-system.svc:15012",
			ControlPlane: netip.MustParseAddr("192.0.2.10"), Address: netip.MustParseAddr("192.0.2.7"), Registers: true,
			CaptureDNS: true, Revision: "v2", Roots: []byte("ROOTS\n"), Token: "TOKEN",
		},
		"little": {TrustDomain: "cluster.local", ClusterID: "Kubernetes", Discovery: "istiod.istio-system.svc:15012"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + name + ".yaml")
			require.NoError(t, err)
			m.Group = &networkingv1.WorkloadGroup{}
			require.NoError(t, yaml.UnmarshalStrict(text, m.Group))
			files, err := m.Files()
			require.NoError(t, err)
			var b strings.Builder
			for _, f := range files {
				fmt.Fprintf(&b, "# %s %o %s\n%s\n", f.Name, f.Mode, f.Place, f.Content)
			}
			golden.File(t, "testdata/"+name+".golden", b.String())
		})
	}
}

// TestVariablesAreNoProgram: the file of variables is read by a shell.
func TestVariablesAreNoProgram(t *testing.T) {
	m := Machine{Group: &networkingv1.WorkloadGroup{}, TrustDomain: "a'; reboot; '"}
	_, err := m.Files()
	require.ErrorContains(t, err, `TRUST_DOMAIN = "a'; reboot; '" has a character that a file of variables cannot have`)
}
