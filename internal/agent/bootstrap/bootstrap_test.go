package bootstrap

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/agent/settings"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/testkit/realenvoy"
)

var addresses = []netip.Addr{netip.MustParseAddr("10.0.0.7")}

// cases are settings as templates make them.
var cases = map[string]settings.Sources{
	"sidecar": {
		Args: []string{"sidecar", "--domain", "shop.svc.cluster.local"},
		Environ: []string{
			"POD_NAME=reviews-v1-0", "POD_NAMESPACE=shop", "INSTANCE_IP=10.0.0.7", "SERVICE_ACCOUNT=reviews",
			"ISTIO_META_INTERCEPTION_MODE=REDIRECT", "ISTIO_META_WORKLOAD_NAME=reviews-v1",
			`PROXY_CONFIG={"discoveryAddress":"lateen.istio-system.svc:15012","tracing":{"sampling":1.5}}`,
			`ISTIO_META_POD_PORTS=[{"containerPort":9080,"protocol":"TCP"}]`,
		},
		Files: fstest.MapFS{"etc/istio/pod/labels": {Data: []byte("app=\"reviews\"\nistio-locality=\"eu.north\"\n")}},
	},
	"gateway": {
		Args: []string{"router", "--log_as_json", "--outlierLogPath=/dev/stdout"},
		Environ: []string{
			"POD_NAME=gateway-0", "POD_NAMESPACE=istio-system", "INSTANCE_IP=fd00::7",
			"EXIT_ON_ZERO_ACTIVE_CONNECTIONS=true", "METRICS_LOCALHOST_ACCESS_ONLY=true",
			`PROXY_CONFIG={"runtimeValues":{"a":"true","b":"3","re2.max_program_size.error_level":""},
				"connectionSettings":{"globalDownstreamConnectionLimit":1000},"statsCompression":false,
				"envoyMetricsService":{"address":"metrics.observability:9125"},
				"proxyStatsMatcher":{"inclusionRegexps":["a\\.<b>"]},"extraStatTags":["tenant"]}`,
		},
		Files: fstest.MapFS{},
	},
	"dual-stack": {
		Args: []string{"sidecar"},
		Environ: []string{
			"POD_NAME=a", "POD_NAMESPACE=default", "INSTANCE_IP=fd00::7", `PROXY_CONFIG={"statusPort":0}`,
		},
		Files:      fstest.MapFS{},
		Interfaces: []settings.Interface{{Name: "eth0", Addresses: addresses}},
	},
}

func config(t *testing.T, sources settings.Sources) []byte {
	t.Helper()
	s, err := settings.Read(sources)
	require.NoError(t, err)
	got, err := Config(s)
	require.NoError(t, err)
	return got
}

func TestGolden(t *testing.T) {
	for name, sources := range cases {
		t.Run(name, func(t *testing.T) {
			golden.File(t, filepath.Join("testdata", name+".json"), string(config(t, sources)))
		})
	}
}

func TestEnvoyTakesTheGoldens(t *testing.T) {
	envoy := realenvoy.Binary(t)
	for name, sources := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "envoy.json")
			require.NoError(t, os.WriteFile(file, config(t, sources), 0o600))
			out, err := exec.Command(envoy, "--mode", "validate", "-c", file, "-l", "warning").CombinedOutput()
			require.NoError(t, err, string(out))
			require.NotContains(t, string(out), "deprecated", name)
			require.NotContains(t, string(out), "[warning]", name)
		})
	}
}
