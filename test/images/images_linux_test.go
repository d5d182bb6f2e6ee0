package images

import (
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/port"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

const (
	bin = "/usr/local/bin/"
	// user is who programs run as.
	user = "1337:1337"
	// patience is how long anything may take that should happen in a moment.
	patience = time.Minute
)

var names = []string{"lateen", "lateen-proxy", "lateen-cli"}

// TestImages makes all images once, because compiling takes longest.
func TestImages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds all programs")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	source, err := filepath.Abs("../..")
	require.NoError(t, err)
	with, out := tools(t), t.TempDir()
	makeImages(t, source, with, out, runtime.GOARCH)

	t.Run("from sources elsewhere have equal digests", func(t *testing.T) {
		again := t.TempDir()
		makeImages(t, elsewhere(t, source), with, again, runtime.GOARCH)
		for _, name := range names {
			first, second := layout(filepath.Join(out, name)), layout(filepath.Join(again, name))
			require.Equal(t, first.index(t), second.index(t), name)
		}
	})
	t.Run("say what they are", func(t *testing.T) {
		for _, name := range names {
			describes(t, layout(filepath.Join(out, name)), name)
		}
	})
	t.Run("run", func(t *testing.T) { run(t, out) })
	t.Run("redirect connections", func(t *testing.T) { redirect(t, out) })
	t.Run("make a mesh", func(t *testing.T) { mesh(t, out) })
	t.Run("hold programs of their architecture", func(t *testing.T) { eachArchitecture(t, source) })
	t.Run("run on the other architecture", func(t *testing.T) { foreign(t, source, with, out) })
}

func describes(t *testing.T, l layout, name string) {
	index := l.index(t)
	require.Equal(t, version, index.Annotations["org.opencontainers.image.ref.name"])
	_, c := l.image(t, runtime.GOARCH)
	require.Equal(t, runtime.GOARCH, c.Architecture)
	require.Equal(t, user, c.Config.User, "a Pod with runAsNonRoot needs a number")
	require.Equal(t, "/", c.Config.WorkingDir)
	licences := "Apache-2.0"
	if name == "lateen-proxy" {
		licences += " AND LGPL-2.1-or-later"
	}
	for label, want := range map[string]string{
		"title": name, "version": version, "revision": "0123abc", "created": "2023-11-14T22:13:20Z",
		"licenses": licences,
	} {
		require.Equal(t, want, c.Config.Labels["org.opencontainers.image."+label], label)
	}
}

// run runs the programs of each image.
func run(t *testing.T, out string) {
	for _, c := range []struct {
		image, want string
		args        []string
	}{
		{"lateen", version, []string{bin + "lateen-discovery", "--version"}},
		{"lateen", version, []string{bin + "pilot-discovery", "--version"}},
		{"lateen-cli", version, []string{bin + "lateen", "--version"}},
		{"lateen-cli", "kind: Deployment", []string{bin + "lateen", "manifest", "--image", "lateen:test"}},
		{"lateen-proxy", version, []string{bin + "pilot-agent", "version"}},
		{"lateen-proxy", version, []string{bin + "lateen-agent", "version"}},
		{"lateen-proxy", "redirect to :15001", []string{bin + "pilot-agent", "istio-iptables", "--dry-run", "-i", "*"}},
		{"lateen-proxy", "version: ", []string{bin + "envoy", "--version"}},
	} {
		r := unpacked(t, out, c.image)
		text, err := exec.Command(r.enter(t, user, nil), c.args...).CombinedOutput()
		require.NoError(t, err, string(text))
		require.Contains(t, string(text), c.want)
	}
	r := unpacked(t, out, "lateen")
	require.NoFileExists(t, r.dir+bin+"lateen", "the control plane has no tools")
	pem, err := os.ReadFile(r.dir + "/etc/ssl/certs/ca-certificates.crt")
	require.NoError(t, err)
	require.True(t, x509.NewCertPool().AppendCertsFromPEM(pem))
}

// redirect sets rules as the init container does, as root in a network namespace of its own. No
// program but the agent is there to set them.
func redirect(t *testing.T, out string) {
	r := unpacked(t, out, "lateen-proxy")
	text, err := exec.Command("unshare", "--net", r.enter(t, "0:0", nil), bin+"pilot-agent", "istio-iptables",
		"-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*", "-b", "*").CombinedOutput()
	require.NoError(t, err, string(text))
}

// mesh runs a control plane and a gateway, each from its image, until the gateway's proxy is ready.
func mesh(t *testing.T, out string) {
	manifests, state := manifests(t), t.TempDir()
	require.NoError(t, os.Chown(state, 1337, 1337))
	plane := unpacked(t, out, "lateen")
	inPlane := plane.enter(t, user, map[string]string{"/mesh": manifests, "/tmp": state})
	// The first argument is the program, which lateenserve does not name.
	serve := filepath.Join(t.TempDir(), "serve")
	require.NoError(t, os.WriteFile(serve, //nolint:gosec // a program
		fmt.Appendf(nil, "#!/bin/sh\nexec %q %slateen-discovery \"$@\"\n", inPlane, bin), 0o755))
	lateen := lateenserve.Start(t, lateenserve.Options{Binary: serve, Args: []string{
		"--config-dir", "/mesh", "--state-dir", "/tmp/state",
	}})
	gateway(t, unpacked(t, out, "lateen-proxy"), lateen.XDS)
}

// manifests is a directory with those of a mesh.
func manifests(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o755)) //nolint:gosec // another user reads it
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mesh.yaml"), []byte(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: app, namespace: default}
spec:
  hosts: [app.test]
  ports: [{number: 80, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1}]
`), 0o644)) //nolint:gosec // another user reads it
	return dir
}

// gateway runs the agent as the container of a Pod, with the volumes that it writes into, and waits
// until Envoy is ready.
func gateway(t *testing.T, r root, controlPlane string) {
	volumes := map[string]string{}
	for _, path := range []string{"/etc/istio/proxy", "/var/lib/istio/data", "/var/run/secrets/workload-spiffe-uds"} {
		volumes[path] = t.TempDir()
		require.NoError(t, os.Chown(volumes[path], 1337, 1337))
	}
	ready := freePort(t)
	enter := r.enter(t, user, volumes)
	cmd := exec.Command(enter, bin+"pilot-agent", "proxy", "router", "--domain", "default.svc.cluster.local")
	cmd.Env = append(os.Environ(), "POD_NAME=edge-0", "POD_NAMESPACE=default", "INSTANCE_IP=127.0.0.1",
		"SERVICE_ACCOUNT=edge", fmt.Sprint("ENVOY_STATUS_PORT=", ready),
		fmt.Sprint("ENVOY_PROMETHEUS_PORT=", freePort(t)),
		fmt.Sprintf(`PROXY_CONFIG={"discoveryAddress":%q,"controlPlaneAuthPolicy":"NONE","statusPort":%d,`+
			`"proxyAdminPort":%d,"terminationDrainDuration":"0.1s","concurrency":1}`,
			controlPlane, freePort(t), freePort(t)))
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the agent's log:\n%s", text)
		}
	})
	url := fmt.Sprintf("--url=http://127.0.0.1:%d/healthz/ready", ready)
	wait := exec.Command(enter, bin+"pilot-agent", "wait", url, "--periodMillis=20",
		fmt.Sprintf("--timeoutSeconds=%d", int(patience.Seconds())))
	text, err := wait.CombinedOutput()
	require.NoError(t, err, string(text))
}

func freePort(t *testing.T) int {
	t.Helper()
	p, err := port.Reserve()
	require.NoError(t, err)
	t.Cleanup(p.Release)
	_, text, err := net.SplitHostPort(p.Address)
	require.NoError(t, err)
	number, err := strconv.Atoi(text)
	require.NoError(t, err)
	return number
}
