package install

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

// TestManifests compares what is installed with testdata: a change of rights is to be seen in a
// review.
func TestManifests(t *testing.T) {
	for name, o := range map[string]Options{
		"default": {Namespace: "istio-system", Image: "registry.example.com/lateen:v1", Replicas: 2},
		"canary":  {Namespace: "mesh", Revision: "canary", Image: "registry.example.com/lateen:v2", Replicas: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o.WebhookName, o.WebhookPath = "validation.lateen.io", "/validate"
			var got bytes.Buffer
			require.NoError(t, Write(&got, Objects(o)))
			golden.File(t, filepath.Join("testdata", name+".yaml"), got.String())
		})
	}
}

func TestServerNames(t *testing.T) {
	require.Equal(t, []string{"istiod.istio-system.svc", "lateen.istio-system.svc"},
		NamesOf("istio-system", "default").ServerNames())
	require.Equal(t, []string{"istiod-canary.mesh.svc", "istiod.mesh.svc", "lateen.mesh.svc"},
		NamesOf("mesh", "canary").ServerNames())
}
