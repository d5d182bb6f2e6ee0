package incluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGuidesOfInstallingAndOperating types docs/guides/install.md, operate.md, injection.md and
// kubernetes.md into a cluster with a workload.
func TestGuidesOfInstallingAndOperating(t *testing.T) {
	asRoot(t)
	c := startCluster(t, aggregatorRouting)
	n, r := c.playNode(t), c.newReader(t)
	c.deploy(t, "shop", nil, nil)

	r.withHelm(t, n)
	r.withACommand(t, n)
	r.withFilesForIstio(t)
	r.upgradesAndComparesAndRemoves(t, n)
	r.upgradesBeside(t, n)
	r.uninstallsAll(t)
	r.withManifests(t)
}

// deploy makes a namespace with a Deployment web.
func (c *cluster) deploy(t *testing.T, namespace string, labels, annotations map[string]string) {
	t.Helper()
	c.namespace(t, namespace, labels)
	web := map[string]string{"app": "web"}
	_, err := c.client.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: web},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: web, Annotations: annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "example.com/web:1"}}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// injected waits until the Pods of a namespace have proxies of a revision, and no others; empty for
// none.
func (c *cluster) injected(t *testing.T, namespace, revision string) {
	t.Helper()
	eventually(t, func(ct require.TestingT) {
		pods, err := c.client.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{})
		require.NoError(ct, err)
		require.NotEmpty(ct, pods.Items)
		for i := range pods.Items {
			p := &pods.Items[i]
			var status struct {
				Revision string `json:"revision"`
			}
			if text := p.Annotations["sidecar.istio.io/status"]; text != "" {
				require.NoError(ct, json.Unmarshal([]byte(text), &status))
				require.Contains(ct, containersOf(p), "istio-proxy")
				asksItsRevision(ct, p, status.Revision)
			}
			require.Equal(ct, revision, status.Revision, p.Name)
		}
	})
}

// asksItsRevision requires that a Pod's proxy connects to the control plane of a revision. What
// says nothing asks that of the default one.
func asksItsRevision(ct require.TestingT, p *corev1.Pod, revision string) {
	service := "istiod"
	if revision != "default" {
		service += "-" + revision
	}
	address := "istiod." + root + ".svc:15012"
	for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for _, v := range container.Env {
			if container.Name != "istio-proxy" || v.Name != "PROXY_CONFIG" {
				continue
			}
			var config struct {
				DiscoveryAddress string `json:"discoveryAddress"`
			}
			require.NoError(ct, json.Unmarshal([]byte(v.Value), &config))
			address = cmp.Or(config.DiscoveryAddress, address)
		}
	}
	require.Equal(ct, service+"."+root+".svc:15012", address, p.Name)
}

// withHelm installs by charts, and takes all away again.
func (r *reader) withHelm(t *testing.T, n *playedNode) {
	r.does(t, `helm install lateen-base charts/base -n istio-system --create-namespace`)
	r.does(t, `helm install lateen charts/lateen -n istio-system --set pilot.image=IMAGE`)
	plane := n.serve(t, "default", "istiod")
	r.does(t, `helm install istio-ingressgateway charts/gateway -n istio-ingress --create-namespace`)
	r.c.injected(t, "istio-ingress", "default")
	r.must(t, "helm uninstall istio-ingressgateway -n istio-ingress")
	r.must(t, "helm uninstall lateen -n istio-system")
	plane.kill()
	r.must(t, "helm uninstall lateen-base -n istio-system")
	r.removesTheRest(t)
}

// removesTheRest removes what uninstalling leaves.
func (r *reader) removesTheRest(t *testing.T) {
	r.does(t, `kubectl delete secret istio-ca-secret -n istio-system`)
	r.does(t, `kubectl get crds -o name | grep istio.io | xargs kubectl delete`)
}

const offline = `apiVersion: apps/v1
kind: Deployment
metadata: {name: offline}
spec:
  selector: {matchLabels: {app: offline}}
  template:
    metadata: {labels: {app: offline}}
    spec: {containers: [{name: app, image: example.com/app}]}
`

func (r *reader) withACommand(t *testing.T, n *playedNode) {
	r.does(t, `lateen precheck`)
	r.does(t, `lateen install --image IMAGE`)
	plane := n.serve(t, "default", "istiod")
	r.does(t, `kubectl label namespace shop istio-injection=enabled`)
	r.does(t, `kubectl rollout restart deployment -n shop`)
	r.c.injected(t, "shop", "default")
	eventually(t, func(ct require.TestingT) { // the webhook's roots come with the leader's next look
		code, text := r.says(t, `lateen verify`)
		require.Zero(ct, code, text)
		require.Contains(ct, text, "ok: a new Pod gets its proxy")
	})
	r.does(t, `lateen install --image IMAGE --set pilot.resources.requests.cpu=1 --set pilot.autoscaleMax=8`)
	require.Contains(t, r.does(t, `lateen install --image IMAGE --dry-run`), "Deployment istio-system/istiod")

	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "deployment.yaml"), []byte(offline), 0o600))
	r.does(t,
		`lateen inject -f deployment.yaml --proxy-image registry.example.com/lateen-proxy:v1 | kubectl apply -f -`)
	r.c.injected(t, "default", "default")
	r.does(t, `kubectl label namespace shop istio-injection=enabled`) // which it has
	r.looksAtAStatus(t)
	r.configuresAMachine(t)
	plane.stop()
}

// configuresAMachine makes a group of machines, and the files of one.
func (r *reader) configuresAMachine(t *testing.T) {
	t.Helper()
	guide, err := os.ReadFile("../../docs/guides/machines.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(guide), "```yaml\n")
	group, _, _ := strings.Cut(rest, "```")
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "group.yaml"), []byte(group), 0o600))
	r.must(t, "kubectl apply -f group.yaml && kubectl create serviceaccount stock -n shop")
	r.does(t, `lateen workload configure vms --namespace shop --output-dir vm`)
	for _, m := range []struct{ name, has string }{
		{"cluster.env", "ISTIO_META_AUTO_REGISTER_GROUP='vms'"}, {"root-cert.pem", "BEGIN CERTIFICATE"},
		{"mesh.yaml", "discoveryAddress: istiod.istio-system.svc:15012"}, {"istio-token", "ey"},
		{"lateen-agent.service", "ExecStart="},
	} {
		text, err := os.ReadFile(filepath.Join(r.dir, "vm", m.name))
		require.NoError(t, err)
		require.Contains(t, string(text), m.has, m.name)
	}
	token, err := os.Stat(filepath.Join(r.dir, "vm", "istio-token"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), token.Mode().Perm())
}

// reviews is a VirtualService whose destination may have a subset.
const reviews = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews}
spec: {hosts: [reviews.test], http: [{route: [{destination: {host: reviews.test%s}}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews}
spec: {hosts: [reviews.test], ports: [{number: 80, name: http, protocol: HTTP}], resolution: DNS}
`

// looksAtAStatus reads what is wrong with an object, and waits for it to be right.
func (r *reader) looksAtAStatus(t *testing.T) {
	apply := func(subset string) {
		text := fmt.Appendf(nil, reviews, subset)
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, "reviews.yaml"), text, 0o600))
		r.must(t, "kubectl apply -f reviews.yaml")
	}
	apply(", subset: v4")
	eventually(t, func(ct require.TestingT) {
		_, text := r.says(t,
			`kubectl get virtualservice reviews -o jsonpath='{.status.conditions[?(@.type=="Accepted")]}'`)
		require.Contains(ct, text, `"status":"False"`)
		require.Contains(ct, text, "no DestinationRule defines this subset")
	})
	apply("")
	r.does(t, `kubectl wait --for=condition=Accepted virtualservice/reviews`)
	r.must(t, "kubectl delete -f reviews.yaml")
}

// withFilesForIstio installs what users of Istio and Maistra have, as a dry run: their gateways
// would need more than one control plane.
func (r *reader) withFilesForIstio(t *testing.T) {
	r.file(t, "seed-discovery-selectors", "istio-discovery-selector.yaml")
	r.file(t, "seed-smcp", "smcp.yaml", "smmr.yaml")
	for _, command := range []string{
		`lateen install --image IMAGE -y -f istio-discovery-selector.yaml`,
		`lateen install --image IMAGE --set profile=demo --set values.pilot.env.PILOT_DEBOUNCE_AFTER=2500ms`,
		`lateen install --image IMAGE -f smcp.yaml -f smmr.yaml`,
	} {
		require.Contains(t, r.commands, command)
		code, text := r.shell(t, command+" --dry-run")
		require.Zero(t, code, text)
		require.Contains(t, text, "Deployment istio-system/istiod")
	}
}

// file puts files of a seed before the reader, by the names that the guides have.
func (r *reader) file(t *testing.T, seed string, names ...string) {
	archive, err := txtar.ParseFile(filepath.Join("../../internal/install/spec/testdata", seed+".txtar"))
	require.NoError(t, err)
	for i, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), archive.Files[i].Data, 0o600))
	}
}

func (r *reader) upgradesAndComparesAndRemoves(t *testing.T, n *playedNode) {
	plane := n.serve(t, "default", "istiod")
	code, text := r.says(t, `lateen diff --image IMAGE:v2`)
	require.Equal(t, 1, code, text)
	require.Contains(t, text, image+":v2", "it shows what changes")
	r.does(t, `lateen upgrade --image IMAGE:v2`)
	code, text = r.says(t, `lateen diff --image IMAGE:v2`)
	require.Zero(t, code, text)
	r.does(t, `lateen verify`)
	r.does(t, `lateen upgrade --set pilot.autoscaleMax=8`)
	r.must(t, `kubectl patch hpa istiod -n istio-system --patch '{"spec": {"minReplicas": 3}}'`)
	r.does(t, `lateen upgrade --set pilot.autoscaleMin=3 --set pilot.resources.requests.cpu=1`)
	r.does(t, `lateen verify`)
	plane.stop()
}

// upgradesBeside moves the namespace to a second revision.
func (r *reader) upgradesBeside(t *testing.T, n *playedNode) {
	r.does(t, `lateen install --image IMAGE:v2 --revision v2`)
	second := n.serve(t, "v2", "istiod-v2")
	r.does(t, `kubectl label namespace shop istio-injection- istio.io/rev=v2`)
	r.does(t, `kubectl rollout restart deployment -n shop`)
	r.c.injected(t, "shop", "v2")
	second.stop()
	r.must(t, "lateen uninstall --revision v2")
	r.must(t, "kubectl label namespace shop istio.io/rev- istio-injection=enabled")
}

func (r *reader) uninstallsAll(t *testing.T) {
	const asks = "warning: namespace shop still asks for proxies of revision default (istio-injection=enabled)"
	require.Contains(t, r.does(t, `lateen uninstall --dry-run`), asks)
	require.Contains(t, r.does(t, `lateen uninstall`), asks)
	eventually(t, func(ct require.TestingT) {
		require.Nil(ct, r.c.find(t, "Deployment", root, "istiod"))
	})
	r.removesTheRest(t)
}

// withManifests applies what lateen manifest prints, of two revisions.
func (r *reader) withManifests(t *testing.T) {
	r.does(t, `lateen manifest --part base | kubectl apply -f -`)
	r.does(t, `lateen manifest --image IMAGE | kubectl apply -f -`)
	r.knowsWhatKubectlApplied(t)
	text := r.does(t, `lateen manifest --image IMAGE --revision canary`)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "canary.yaml"), []byte(text), 0o600))
	r.must(t, "kubectl apply -f canary.yaml")
	require.NotNil(t, r.c.find(t, "Deployment", root, "istiod"))
	require.NotNil(t, r.c.find(t, "Deployment", root, "istiod-canary"))
}

// knowsWhatKubectlApplied compares what kubectl has applied, changes it by lateen upgrade, and
// removes it by kubectl, which leaves Istio's kinds, and by lateen uninstall.
func (r *reader) knowsWhatKubectlApplied(t *testing.T) {
	text := func(command string) string {
		code, text := r.shell(t, command)
		require.Zero(t, code, "%s\n%s", command, text)
		return text
	}
	const deployment, variable = `kubectl get deployment istiod -n istio-system -o yaml`, "PILOT_PUSH_THROTTLE"
	require.Empty(t, text(`lateen diff`))
	upgraded := text(`lateen upgrade --wait=false --set pilot.env.PILOT_PUSH_THROTTLE=7`)
	require.Contains(t, upgraded, "changing Deployment istio-system/istiod")
	require.Contains(t, text(deployment), variable)
	r.must(t, `lateen upgrade --wait=false --reset-values --image IMAGE`)
	require.NotContains(t, text(deployment), variable)
	r.does(t, `lateen manifest --image IMAGE | kubectl delete -f -`)
	r.must(t, `kubectl get crd virtualservices.networking.istio.io`)
	require.Nil(t, r.c.find(t, "Deployment", root, "istiod"))
	again := `lateen manifest --image IMAGE | kubectl apply -f -`
	r.must(t, again)
	r.must(t, `lateen uninstall`)
	require.Nil(t, r.c.find(t, "Deployment", root, "istiod"))
	r.must(t, again)
}
