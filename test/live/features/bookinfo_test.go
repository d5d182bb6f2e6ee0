package features

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
)

// TestBookinfoWorksWithTheGatewayAPI runs the example as a user does.
func TestBookinfoWorksWithTheGatewayAPI(t *testing.T) {
	paths, err := filepath.Glob("../../../examples/bookinfo-gateway-api/*.yaml")
	require.NoError(t, err)
	require.Len(t, paths, 6)
	var files string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		if name := filepath.Base(path); name != "gateway.yaml" && name != "traffic.yaml" {
			twin, err := os.ReadFile(filepath.Join("../../../examples/bookinfo", name))
			require.NoError(t, err)
			require.Equal(t, string(twin), string(content), "%s is the same in both examples", name)
		}
		files += livemesh.File(filepath.Base(path), string(content))
	}
	m := livemesh.Start(t, files)
	gateway := m.Gateway("bookinfo-lateen", 8080) // the Gateway is deployed
	page := gateway.Get("/productpage")
	requireStatus(t, 200, page)
	requireStatus(t, 404, gateway.Get("/elsewhere"))
	const reviews = "/api/v1/products/0/reviews"
	require.Contains(t, gateway.Get(reviews, livemesh.Header("end-user", "jason")).Body, `"version":"v2"`)
	versions := map[string]bool{}
	for range 200 { // the rarest gets a tenth
		a := gateway.Get(reviews)
		requireStatus(t, 200, a)
		for _, v := range []string{"v1", "v2", "v3"} {
			if strings.Contains(a.Body, `"version":"`+v+`"`) {
				versions[v] = true
			}
		}
	}
	require.Equal(t, map[string]bool{"v1": true, "v2": true, "v3": true}, versions)
}
