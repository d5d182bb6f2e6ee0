package inspect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/cli/command"
	"github.com/lateen-mesh/lateen/internal/cli/remote"
	"github.com/lateen-mesh/lateen/internal/cli/terminal"
	"github.com/lateen-mesh/lateen/internal/install/reach"
	"github.com/lateen-mesh/lateen/internal/testkit/console"
)

// podsAt are Pods whose ports are addresses of this machine, by name.
type podsAt map[string]string

func (p podsAt) Replicas(context.Context, string, string) (all []reach.Replica, err error) {
	for _, name := range []string{"istiod-0", "istiod-1", "istiod-2"} {
		if _, ok := p[name]; ok {
			all = append(all, reach.Replica{Namespace: "istio-system", Pod: name})
		}
	}
	return all, nil
}

// Running returns the Pod that is named as the selector's value.
func (p podsAt) Running(_ context.Context, _, selector string) (all []string, err error) {
	_, name, _ := strings.Cut(selector, "=")
	if _, ok := p[name]; ok {
		all = append(all, name)
	}
	return all, nil
}

func (p podsAt) Dial(ctx context.Context, _, pod string, _ int) (net.Conn, error) {
	if p[pod] == "" {
		return nil, errors.New("the kubelet is gone")
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", p[pod])
}

// replicaWith serves the debug pages of a replica with one proxy.
func replicaWith(t *testing.T, proxy, problem string) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	say := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.Host, "localhost:") {
				http.Error(w, "the host "+r.Host, http.StatusForbidden)
				return
			}
			_, _ = fmt.Fprint(w, text)
		})
	}
	say("/debug/syncz", fmt.Sprintf(`[{"proxy": %q, "proxy_type": "sidecar", "proxy_version": "1.31.0"}]`, proxy))
	say("/debug/problems", fmt.Sprintf(`[{"severity": "error", "message": %q, "text": %[1]q}]`, problem))
	say("/version", "v1")
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// output runs a command against a cluster, and returns what it prints.
func output(t *testing.T, cluster podsAt, newCommand func(*terminal.Writer, *remote.Remote) *cobra.Command,
	args ...string,
) (string, error) {
	t.Helper()
	var out strings.Builder
	r := &remote.Remote{Local: "127.0.0.1:1", Open: func(*remote.Remote) (remote.Pods, error) { return cluster, nil }}
	cmd := newCommand(console.Plain(&out), r)
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestStatusAsksAllReplicas: without an address, and with a row for each proxy that says which
// replica serves it. What replicas have read alike is told once.
func TestStatusAsksAllReplicas(t *testing.T) {
	cluster := podsAt{
		"istiod-0": replicaWith(t, "b.default", "bad weight"),
		"istiod-1": replicaWith(t, "a.default", "bad weight"),
	}
	out, err := output(t, cluster, statusCommand)
	require.NoError(t, err)
	require.Regexp(t, `a\.default .* istiod-1\nb\.default .* istiod-0\n`, out)
	require.Contains(t, out, "1 problem in the mesh's objects:\n  bad weight\n")

	cluster["istiod-2"] = ""
	out, err = output(t, cluster, statusCommand)
	require.ErrorIs(t, err, command.ErrFailed, "one replica is missing")
	require.Contains(t, out, "a.default")
	require.Contains(t, out, "replica istiod-2: nobody answers at istiod-2")
	require.Contains(t, out, "the kubelet is gone")
}

func TestNoControlPlaneIsTold(t *testing.T) {
	_, err := output(t, podsAt{}, statusCommand)
	require.ErrorContains(t, err, "nobody answers at 127.0.0.1:1, and no control plane is found in a cluster")
	require.ErrorContains(t, err, "no Pod of Lateen runs in namespace istio-system")
	_, err = output(t, podsAt{}, statusCommand, "--revision", "canary", "--namespace", "mesh")
	require.EqualError(t, err, "no Pod of Lateen runs in namespace mesh with revision canary; want --namespace and "+
		"--revision of one that is installed")
}

func TestVersionNamesEachReplicaAndTheProxies(t *testing.T) {
	cluster := podsAt{"istiod-0": replicaWith(t, "b.default", ""), "istiod-1": replicaWith(t, "a.default", "")}
	out, err := output(t, cluster, versionCommand)
	require.NoError(t, err)
	require.Regexp(t, `^client: dev \(Istio API .*\)
control plane istiod-0: v1
control plane istiod-1: v1
proxies: 1\.31\.0 \(2 proxies\)
$`, out)

	out, err = output(t, cluster, versionCommand, "-o", "json")
	require.NoError(t, err)
	require.Contains(t, out, `"dataPlane": [`)

	out, err = output(t, podsAt{}, versionCommand)
	require.NoError(t, err, "it has a version without a control plane too")
	require.Contains(t, out, "control plane: nobody answers")
	_, err = output(t, podsAt{"istiod-0": ""}, versionCommand)
	require.ErrorIs(t, err, command.ErrFailed)
}
