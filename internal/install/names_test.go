package install

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServerNames(t *testing.T) {
	require.Equal(t, []string{"istiod.istio-system.svc", "lateen.istio-system.svc"},
		NamesOf("istio-system", "default").ServerNames())
	require.Equal(t, []string{"istiod-canary.mesh.svc", "istiod.mesh.svc", "lateen.mesh.svc"},
		NamesOf("mesh", "canary").ServerNames())
}
