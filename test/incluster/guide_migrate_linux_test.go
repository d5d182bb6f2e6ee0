package incluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is compared in step 2.
const (
	rootsOfShop = `kubectl get configmap istio-ca-root-cert -n shop ` +
		`-o jsonpath='{.data.root-cert\.pem}' | sha256sum`
	rootOfAuthority = `kubectl get secret istio-ca-secret -n istio-system ` +
		`-o jsonpath='{.data.ca-cert\.pem}' | base64 -d | sha256sum`
)

// movesTheGateway is the command of step 5.
const movesTheGateway = `kubectl patch deployment istio-ingressgateway -n istio-ingress ` +
	`-p '{"spec": {"template": {"metadata": {"labels": {"istio.io/rev": "lateen"}}}}}'`

// TestGuideOfMigrating types docs/guides/migrate.md into a cluster with another control plane. That
// is an istiod, installed by its own charts, if $LATEEN_ISTIOD names the program pilot-discovery
// and $LATEEN_ISTIO_CHARTS the folder manifests/charts of the same release; and else a Lateen of
// the default revision. TestProxiesMoveBetweenControlPlanes has the traffic between the two.
func TestGuideOfMigrating(t *testing.T) {
	asRoot(t)
	c := startCluster(t, aggregatorRouting)
	n, r := c.playNode(t), c.newReader(t)
	isIstio := r.oldControlPlane(t, n)
	c.deploy(t, "shop", map[string]string{"istio-injection": "enabled"}, nil)
	c.injected(t, "shop", "default")
	c.deploy(t, "legacy", map[string]string{"istio-injection": "enabled"},
		map[string]string{"proxy.istio.io/config": "interceptionMode: MIRROR"})

	// 1. Look.
	code, text := r.says(t, `lateen precheck --revision lateen`)
	require.Equal(t, 1, code, text)
	require.Regexp(t, `Deployment legacy/web +no go +spec.template.metadata.annotations\[proxy.istio.io/config\]`, text)
	require.NotRegexp(t, `(?m)^[^D].* no go`, text, "nothing else is in the way")

	// 2. Install beside it.
	if isIstio {
		code, text = r.says(t, `lateen install --image IMAGE`)
		require.Equal(t, 1, code, text)
		require.Contains(t, text, "Service istio-system/istiod is there already: it is Istio's")
	}
	r.does(t, `kubectl get configmap istio -n istio-system -o jsonpath='{.data.mesh}' > mesh.yaml`)
	r.does(t, `{ echo 'meshConfig:'; sed 's/^/  /' mesh.yaml; } > values.yaml`)
	require.Contains(t, r.does(t, `lateen install --image IMAGE --revision lateen -f values.yaml`),
		"proxies of this revision ask istiod-lateen.istio-system.svc:15012")
	moved := n.serve(t, "lateen", "istiod-lateen")
	eventually(t, func(ct require.TestingT) { // the webhook's roots come with the leader's next look
		code, text := r.says(t, `lateen verify --revision lateen`)
		require.Zero(ct, code, text)
	})
	c.injected(t, "shop", "default")
	require.Equal(t, r.does(t, rootOfAuthority), r.does(t, rootsOfShop))

	// 3. Move one namespace.
	c.envoy(t, moved)
	r.does(t, `kubectl label namespace shop istio-injection- istio.io/rev=lateen --overwrite`)
	r.does(t, `kubectl rollout restart deployment -n shop`)
	c.injected(t, "shop", "lateen")
	require.Contains(t, r.does(t, `lateen status`), "web-0.default")
	require.Equal(t, r.does(t, rootOfAuthority), r.does(t, rootsOfShop))

	// 4. And back.
	r.does(t, `kubectl label namespace shop istio.io/rev- istio-injection=enabled --overwrite`)
	eventually(t, func(ct require.TestingT) { // kubectl restarts nothing twice within a second
		code, text := r.says(t, `kubectl rollout restart deployment -n shop`)
		require.Zero(ct, code, text)
	})
	c.injected(t, "shop", "default")
	r.movesAGateway(t)
	r.endsTheOld(t, isIstio)
	require.NotContains(t, moved.said(), "forbidden", "all that it does, it may do")
}

// movesAGateway is step 5, there and back: its Pods are injected anew, and its Service stays.
func (r *reader) movesAGateway(t *testing.T) {
	const namespace, name = "istio-ingress", "istio-ingressgateway"
	r.must(t, "helm install "+name+" charts/gateway -n "+namespace+" --create-namespace")
	r.c.injected(t, namespace, "default")
	before := r.c.get(t, "Service", namespace, name)
	r.does(t, movesTheGateway)
	r.does(t, `kubectl rollout status deployment istio-ingressgateway -n istio-ingress`)
	r.c.injected(t, namespace, "lateen")
	require.Equal(t, before.Object["spec"], r.c.get(t, "Service", namespace, name).Object["spec"])
	r.must(t, `kubectl patch deployment `+name+` -n `+namespace+
		` -p '{"spec": {"template": {"metadata": {"labels": {"istio.io/rev": null}}}}}'`)
	r.c.injected(t, namespace, "default")
	r.must(t, "helm uninstall "+name+" -n "+namespace)
}

// endsTheOld is step 6: with everything moved, the old control plane goes, and new Pods get their
// proxies.
func (r *reader) endsTheOld(t *testing.T, isIstio bool) {
	r.must(t, "kubectl label namespace shop legacy istio-injection- istio.io/rev=lateen --overwrite")
	r.must(t, "kubectl delete deployment web -n legacy")
	if isIstio {
		r.does(t, `helm uninstall istiod -n istio-system`)
	} else {
		r.must(t, "lateen uninstall")
	}
	eventually(t, func(ct require.TestingT) { // kubectl restarts nothing twice within a second
		code, text := r.says(t, `kubectl rollout restart deployment -n shop`)
		require.Zero(ct, code, text)
	})
	r.c.injected(t, "shop", "lateen")
	eventually(t, func(ct require.TestingT) {
		code, text := r.says(t, `lateen verify --revision lateen`)
		require.Zero(ct, code, text)
	})
	require.NotNil(t, r.c.find(t, "Secret", root, "istio-ca-secret"), "the root of the mesh")
}

// oldControlPlane installs and runs the one that namespaces move away from, and reports whether it
// is an istiod.
func (r *reader) oldControlPlane(t *testing.T, n *playedNode) bool {
	t.Helper()
	program, charts := os.Getenv("LATEEN_ISTIOD"), os.Getenv("LATEEN_ISTIO_CHARTS")
	if program == "" || charts == "" {
		r.must(t, "lateen install --image IMAGE --set meshConfig.accessLogFile=/dev/stdout "+
			"--set meshConfig.defaultConfig.discoveryAddress=istiod.istio-system.svc:15012") // as Istio's chart does
		plane := n.serve(t, "default", "istiod")
		t.Cleanup(plane.kill)
		return false
	}
	r.takeCharts(t, charts, "istio")
	r.takeCharts(t, filepath.Join(charts, "istio-control"), "istio-control")
	r.must(t, "helm install istio-base istio/base -n istio-system --create-namespace")
	r.must(t, "helm install istiod istio-control/istio-discovery -n istio-system")
	address := n.own(t, "default")
	istiod := exec.Command(program, "discovery", "--kubeconfig", r.c.kubeconfig(t), "--clusterID", "Kubernetes",
		"--secureGRPCAddr", address+":15012", "--httpsAddr", address+":15017", "--httpAddr", address+":8080",
		"--monitoringAddr", address+":15014", "--grpcAddr", address+":15010", "--ctrlz_port", "0")
	istiod.Dir = t.TempDir()
	istiod.Env = append(os.Environ(), "POD_NAMESPACE=istio-system", "POD_NAME=istiod-0", "REVISION=default")
	istiod.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log := &strings.Builder{}
	istiod.Stderr = log
	require.NoError(t, istiod.Start())
	t.Cleanup(func() {
		_ = istiod.Process.Kill()
		_ = istiod.Wait()
		if t.Failed() {
			t.Log(fmt.Sprint(log))
		}
	})
	return true
}
