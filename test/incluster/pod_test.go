package incluster

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// mounted is what a kubelet does for a container with a service account: it puts the files of $1
// where clients look for them. Then it becomes the program of the other arguments.
const mounted = `set -e
at=/var/run/secrets/kubernetes.io/serviceaccount
mount -t tmpfs tmpfs /run
mkdir -p $at
cp "$1"/token "$1"/ca.crt "$1"/namespace $at
shift
exec "$@"`

// startInPod runs a replica as in a Pod: in a mount namespace with the files of its service
// account, and with variables that name the API server; without a kubeconfig.
func (c *cluster) startInPod(t *testing.T) *replica {
	if os.Getuid() != 0 {
		t.Log("not root: a replica that should be like one in a Pod has a kubeconfig")
		return c.start(t)
	}
	dir, config := t.TempDir(), c.api.Config()
	for name, content := range map[string]string{
		"token":     c.token(t, "istiod"),
		"ca.crt":    string(config.CAData),
		"namespace": root,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	server, err := url.Parse(config.Host)
	require.NoError(t, err)
	return c.run(t, func(args []string) *exec.Cmd {
		command := exec.Command("unshare", append([]string{"--mount", "sh", "-c", mounted, "sh", dir, c.server},
			args...)...)
		command.Env = append(os.Environ(), "KUBECONFIG=", "KUBERNETES_SERVICE_HOST="+server.Hostname(),
			"KUBERNETES_SERVICE_PORT="+server.Port())
		return command
	})
}
