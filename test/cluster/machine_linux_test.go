package cluster

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	networkingclient "istio.io/client-go/pkg/clientset/versioned/typed/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	installed "github.com/lateen-mesh/lateen/internal/install/workload"
	"github.com/lateen-mesh/lateen/internal/testkit/livemesh"
	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

const groupOfMachines = `
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: vm}
spec:
  metadata: {labels: {app: vm}}
  template: {serviceAccount: vm}
  probe: {periodSeconds: 1, httpGet: {path: /health, port: 8080}}
`

// machines run a machine that is no Pod: by the files of lateen workload configure it gets its
// identity and its configuration, registers itself, and is called and calls in mutual TLS. What its
// agent tells of its workload counts. It proves itself by its certificate when its token is no good
// any more, and its entry goes when it leaves.
func machines(t *testing.T, c *cluster) {
	c.apply(t, groupOfMachines, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: vm}",
		livemesh.Object("Service vm", "selector: {app: vm}\nports: [{name: http, port: 80, targetPort: 8080}]"),
		livemesh.Object("PeerAuthentication vm", "selector: {matchLabels: {app: vm}}\nmtls: {mode: STRICT}"),
		ofMesh(echo("shop", "v1", 1)), livemesh.Service("shop", "http:80:8080"))
	c.ready(t, "shop-v1")
	m := newMachine(t, c)
	app := m.startApp(t)
	agent := m.startAgent(t)
	client := c.from(t, "app=client")
	called := client.until(t, "http://vm/", "an answer of the machine", again(10, client, "http://vm/", version("vm")))
	require.Contains(t, called.echoed.Headers.Get("X-Forwarded-Client-Cert"), "/ns/"+c.namespace+"/sa/default")
	require.Equal(t, "True", m.health(m.entry(t)))

	from := c.within(t, m.pod)
	answered := from.until(t, "http://shop/", "an answer of the mesh", again(10, from, "http://shop/", version("v1")))
	require.Contains(t, answered.echoed.Headers.Get("X-Forwarded-Client-Cert"), "/ns/"+c.namespace+"/sa/vm")

	app.Kill()
	c.await(t, "the machine's workload is unhealthy", func() bool { return m.health(m.entry(t)) == "False" })
	client.until(t, "http://vm/", "503, as nobody serves", status(http.StatusServiceUnavailable))
	m.startApp(t)
	client.until(t, "http://vm/", "an answer of the machine", version("vm"))

	token := filepath.Join(m.dir, "var/run/secrets/tokens/istio-token")
	require.NoError(t, os.WriteFile(token, []byte("expired"), 0o644))
	before := m.entry(t)
	agent.Stop(t.Context(), 10*time.Second)
	m.startAgent(t)
	c.await(t, "the machine is connected again", func() bool {
		now := m.entry(t)
		return now.UID == before.UID &&
			now.Annotations["istio.io/connectedAt"] > before.Annotations["istio.io/connectedAt"]
	})
	client.until(t, "http://vm/", "an answer of the machine", version("vm"))

	m.stop()
	c.await(t, "the entry of the machine is gone", func() bool {
		_, err := m.api.WorkloadEntries(c.namespace).Get(t.Context(), m.name(), metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// machine is a network namespace without a Pod.
type machine struct {
	c       *cluster
	pod     *podnet.Pod
	dir     string // its root
	self    string
	env     []string
	api     networkingclient.NetworkingV1Interface
	running []*podnet.Process
}

func newMachine(t *testing.T, c *cluster) *machine {
	pod, err := c.network.AddPod()
	require.NoError(t, err)
	t.Cleanup(pod.Close)
	require.NoError(t, pod.Redirect(false))
	self, err := os.Executable()
	require.NoError(t, err)
	api, err := networkingclient.NewForConfig(c.api.Config())
	require.NoError(t, err)
	m := &machine{c: c, pod: pod, dir: podsDir(t), self: self, api: api}
	configured, err := installed.Gather(t.Context(), c.api.Config(), installed.Wish{
		Namespace: c.namespace, Name: "vm", RootNamespace: rootNamespace, ClusterID: "Kubernetes",
		Discovery: secureAddr().String(), Registers: true, TokenLife: time.Hour,
	})
	require.NoError(t, err)
	files, err := configured.Files()
	require.NoError(t, err)
	for _, f := range files {
		switch {
		case !strings.HasPrefix(f.Place, "/"):
		case f.Name == "cluster.env":
			m.env = strings.Split(strings.ReplaceAll(strings.TrimSpace(string(f.Content)), "'", ""), "\n")
		default:
			m.write(t, f.Place, f.Content)
		}
	}
	m.write(t, "resolv.conf", []byte("nameserver "+podnet.Gateway.String()+"\n"))
	certs := filepath.Join(m.dir, "etc/certs")
	m.env = append(m.env, "POD_NAME=vm-1", "INSTANCE_IP="+pod.Addr.String(), "ISTIOD_SAN="+serverName,
		"PROV_CERT="+certs, "OUTPUT_CERTS="+certs, "LATEEN_APP_ADDRESS=0.0.0.0", "PATH="+os.Getenv("PATH"),
		fmt.Sprintf(`PROXY_CONFIG={"binaryPath": %q, "concurrency": 1, "terminationDrainDuration": "0.5s"}`, c.envoy))
	require.NoError(t, filepath.WalkDir(m.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, podnet.ProxyUID, podnet.ProxyUID)
	}))
	t.Cleanup(m.stop)
	return m
}

func (m *machine) write(t *testing.T, place string, content []byte) {
	path := filepath.Join(m.dir, place)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, content, 0o644))
}

// start runs a program as a user; its output is in a file of its name.
func (m *machine) start(t *testing.T, name string, user podnet.User, args []string) *podnet.Process {
	output, err := os.OpenFile(filepath.Join(m.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer func() { _ = output.Close() }()
	require.NoError(t, output.Chmod(0o666)) // Envoy opens /dev/stdout by itself
	p, err := m.pod.Start(podnet.Command{
		Args: podnet.InitArgs(m.self, filepath.Join(m.dir, "resolv.conf"), user, args), Env: m.env, Output: output,
	})
	require.NoError(t, err)
	m.running = append(m.running, p)
	return p
}

func (m *machine) startApp(t *testing.T) *podnet.Process {
	return m.start(t, "app", podnet.User{}, []string{m.self, "sample", "--version=vm", "--port=8080"})
}

func (m *machine) startAgent(t *testing.T) *podnet.Process {
	t.Cleanup(func() {
		if log, err := os.ReadFile(filepath.Join(m.dir, "agent.log")); t.Failed() && err == nil {
			t.Logf("the agent of the machine:\n%s", log)
		}
	})
	return m.start(t, "agent", podnet.Proxy(), []string{
		"/bin/sh", "-c", `cd "$0" && exec "$@"`, m.dir, m.c.agent, "proxy", "sidecar", "--proxyLogLevel", "warning",
	})
}

// stop ends what runs on the machine.
func (m *machine) stop() {
	for _, p := range m.running {
		p.Kill()
	}
}

func (m *machine) name() string { return "vm-" + m.pod.Addr.String() }

func (m *machine) entry(t *testing.T) *networkingv1.WorkloadEntry {
	t.Helper()
	e, err := m.api.WorkloadEntries(m.c.namespace).Get(t.Context(), m.name(), metav1.GetOptions{})
	require.NoError(t, err)
	return e
}

// health is the status of the condition Healthy.
func (m *machine) health(e *networkingv1.WorkloadEntry) string {
	for _, condition := range e.Status.GetConditions() {
		if condition.GetType() == "Healthy" {
			return condition.GetStatus()
		}
	}
	return ""
}
