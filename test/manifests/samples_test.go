package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
)

// istioSamples are Istio's own samples with the Gateway API, as its documentation applies them: by
// files below samples, the later over the earlier. Routes is how many routes are in force.
var istioSamples = []struct {
	name   string
	files  []string
	routes int
}{
	{"bookinfo", []string{
		"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/platform/kube/bookinfo-versions.yaml",
		"bookinfo/gateway-api/bookinfo-gateway.yaml",
	}, 1},
	{"bookinfo, all to v1", []string{
		"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/platform/kube/bookinfo-versions.yaml",
		"bookinfo/gateway-api/bookinfo-gateway.yaml", "bookinfo/gateway-api/route-all-v1.yaml",
	}, 5},
	{"bookinfo, 90 to 10", []string{
		"bookinfo/platform/kube/bookinfo.yaml", "bookinfo/platform/kube/bookinfo-versions.yaml",
		"bookinfo/gateway-api/bookinfo-gateway.yaml", "bookinfo/gateway-api/route-all-v1.yaml",
		"bookinfo/gateway-api/route-reviews-90-10.yaml",
	}, 5},
	{"httpbin", []string{"httpbin/httpbin.yaml", "httpbin/gateway-api/httpbin-gateway.yaml"}, 1},
	{"helloworld", []string{"helloworld/helloworld.yaml", "helloworld/gateway-api/helloworld-gateway.yaml"}, 1},
	{"helloworld, by versions", []string{
		"helloworld/helloworld.yaml", "helloworld/gateway-api/helloworld-gateway.yaml",
		"helloworld/gateway-api/helloworld-versions.yaml", "helloworld/gateway-api/helloworld-route.yaml",
	}, 1},
	{"tcp-echo, all to v1", []string{
		"tcp-echo/tcp-echo-services.yaml", "tcp-echo/gateway-api/tcp-echo-all-v1.yaml",
	}, 1},
	{"tcp-echo, 80 to 20", []string{
		"tcp-echo/tcp-echo-services.yaml", "tcp-echo/gateway-api/tcp-echo-all-v1.yaml",
		"tcp-echo/gateway-api/tcp-echo-20-v2.yaml",
	}, 1},
}

// TestIstiosSamplesAreInForce takes the samples unchanged: no document is refused or has a problem,
// and each Gateway and each route is accepted with all that it names.
func TestIstiosSamplesAreInForce(t *testing.T) {
	dir := samplesOf(t)
	for _, sample := range istioSamples {
		t.Run(sample.name, func(t *testing.T) {
			present := map[source.Key]state.Update{}
			for _, file := range sample.files {
				for _, u := range sampleUpdates(t, filepath.Join(dir, file)) {
					present[u.Key] = u
				}
			}
			var all []state.Update
			for _, u := range present {
				all = append(all, u)
			}
			s, _ := state.NewWriter().Apply(all)
			gateways, routes := 0, 0
			for k := range present {
				switch k.Kind {
				case kinds.KubernetesGateway:
					gateways++
					requireAccepted(t, s.GatewayAPIStatus(k.Kind, k.Namespace, k.Name))
				case kinds.HTTPRoute, kinds.TCPRoute:
					routes++
					requireAttached(t, s.GatewayAPIStatus(k.Kind, k.Namespace, k.Name))
				}
			}
			require.Equal(t, 1, gateways)
			require.Equal(t, sample.routes, routes)
		})
	}
}

// samplesOf is the directory of the samples in Istio's module, which another test builds istioctl
// from.
func samplesOf(t *testing.T) string {
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/istio")
	list.Dir = "../istioctl"
	list.Env = append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
	out, err := list.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Skip("Istio's module is not there: make istioctl fetches it")
	}
	return filepath.Join(dir, "samples")
}

// sampleUpdates converts a file, in the namespace of a user.
func sampleUpdates(t *testing.T, file string) []state.Update {
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	documents, problems := manifest.Read(file, content)
	require.Empty(t, problems, file)
	converter := convert.New(convert.Options{})
	var all []state.Update
	for i := range documents {
		c := documents[i].Change(time.Time{})
		r := converter.Convert(c, model.DefaultMesh())
		require.Empty(t, r.Problems, file)
		all = append(all, state.Update{Key: c.Key, Objects: r.Objects})
	}
	return all
}

func requireAccepted(t *testing.T, s *model.GatewayAPIStatus) {
	t.Helper()
	require.NotNil(t, s)
	require.Equal(t, "Accepted", s.Accepted.Reason, s.Accepted.Message)
	for _, l := range s.Listeners {
		require.True(t, l.Programmed.Status && l.ResolvedRefs.Status, l.Programmed.Message)
		require.NotZero(t, l.Attached)
	}
}

func requireAttached(t *testing.T, s *model.GatewayAPIStatus) {
	t.Helper()
	require.NotNil(t, s)
	require.NotEmpty(t, s.Parents)
	for _, p := range s.Parents {
		require.True(t, p.Accepted.Status, p.Accepted.Message)
		require.True(t, p.ResolvedRefs.Status, p.ResolvedRefs.Message)
	}
}
