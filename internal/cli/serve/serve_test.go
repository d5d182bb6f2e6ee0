package serve

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/app"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cluster/certs"
)

func TestServeRefusesADirectoryThatWasNeverThere(t *testing.T) {
	dir := t.TempDir()
	missing, state := filepath.Join(dir, "missing"), filepath.Join(dir, "state")
	require.ErrorContains(t, requireManifests(missing, state), missing)
	require.NoError(t, requireManifests(dir, state))
	require.NoError(t, os.MkdirAll(filepath.Join(state, "records"), 0o700))
	require.NoError(t, requireManifests(missing, state), "it has vanished since: its last state stays in force")
}

// TestConnectionAgeHasIstiodsName: both names set one value, and istiod's longest duration is
// never.
func TestConnectionAgeHasIstiodsName(t *testing.T) {
	for args, want := range map[string]time.Duration{
		"": 0, "--max-connection-age=30m": 30 * time.Minute, "--keepaliveMaxServerConnectionAge=30m": 30 * time.Minute,
		"--keepaliveMaxServerConnectionAge=2562047h47m16.854775807s": 0,
	} {
		var age time.Duration
		cmd := &cobra.Command{}
		bindConnectionAge(cmd, &age)
		require.NoError(t, cmd.ParseFlags(strings.Fields(args)))
		require.Equal(t, want, age, args)
	}
}

// A control plane that is stopped in the middle of its work ends without an error; TestMain looks
// for what it leaves.
func TestServeThatIsStoppedLeavesNothing(t *testing.T) {
	manifests, state := t.TempDir(), t.TempDir()
	manifest := "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}]}\n"
	require.NoError(t, os.WriteFile(filepath.Join(manifests, "a.yaml"), []byte(manifest), 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, Command(),
			[]string{"--config-dir", manifests, "--state-dir", state, "--xds-address", "127.0.0.1:0",
				"--monitoring-address", "127.0.0.1:0", "--log-level", "error"})
	}()
	require.Eventually(t, func() bool {
		records, err := os.ReadDir(state)
		return err == nil && len(records) > 0
	}, 3*time.Minute, 5*time.Millisecond, "it has read the manifests")
	cancel()
	require.Zero(t, <-ended)
}

func TestRequiredClientCertificatesNeedTheirAuthorities(t *testing.T) {
	f := clusterFlags{presence: presenceFlags{callers: certs.Clients{Required: true}}}
	require.ErrorContains(t, f.join(&app.Options{}), "want --webhook-client-ca")
}

func TestAuthoritiesOfProxiesNeedTLS(t *testing.T) {
	f := clusterFlags{presence: presenceFlags{clientCA: "ca.pem"}}
	require.ErrorContains(t, f.join(&app.Options{}), "want --secure-xds-address")
}

// With EXTERNAL_CA somebody signs the control plane's own certificate, or it has one in files.
func TestExternalAuthorityNeedsAServingCertificate(t *testing.T) {
	c := config.Config{ExternalCA: true, SignerDomain: "issuers.example.com"}
	_, err := externalCA(c, false)
	require.ErrorContains(t, err, "or --tls-cert")
	external, err := externalCA(c, true)
	require.NoError(t, err)
	require.Equal(t, "issuers.example.com", external.Domain)
	c.ServingSigner = "example.com/istiod"
	external, err = externalCA(c, false)
	require.NoError(t, err)
	require.Equal(t, "example.com/istiod", external.ServingSigner)
}

// Whoever may forward a port to a Pod comes from its loopback address.
func TestLoopbackIsTrustedOutsideOfPodsAlone(t *testing.T) {
	for inPod, want := range map[string]string{"": "true", "10.96.0.1": "false"} {
		var f clusterFlags
		cmd := &cobra.Command{}
		f.bind(cmd, func(name string) string {
			if name == "KUBERNETES_SERVICE_HOST" {
				return inPod
			}
			return ""
		})
		require.Equal(t, want, cmd.Flags().Lookup("trust-loopback").DefValue)
	}
}
