package incluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// istios is what Istio's installer leaves in a namespace, as far as it could be in the way.
const istios = `apiVersion: v1
kind: ConfigMap
metadata:
  name: istio
  namespace: istio-system
  labels: {istio.io/rev: default, operator.istio.io/component: Pilot, release: istio}
data: {mesh: "accessLogFile: /dev/stdout"}
---
apiVersion: v1
kind: Service
metadata:
  name: istiod
  namespace: istio-system
  labels: {app: istiod, istio: pilot, istio.io/rev: default, operator.istio.io/component: Pilot}
spec: {selector: {app: istiod, istio: pilot}, ports: [{name: grpc-xds, port: 15010}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: istiod
  namespace: istio-system
  labels: {app: istiod, release: istio}
rules: [{apiGroups: [""], resources: [secrets], verbs: [create, get, watch, list, update, delete]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: istio-sidecar-injector
  labels: {app: sidecar-injector, istio.io/rev: default, operator.istio.io/component: Pilot}
webhooks:
- name: namespace.sidecar-injector.istio.io
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: istiod, namespace: istio-system, path: /inject}}
  failurePolicy: Ignore
  namespaceSelector: {matchLabels: {istio-injection: enabled}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  sideEffects: None
`

// lateenSays runs a command of the installer, and returns its exit code and all that it prints.
func (c *cluster) lateenSays(t *testing.T, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, c.lateen, append(args, "--kubeconfig", c.api.Kubeconfig())...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil {
		require.ErrorAs(t, err, &exit, out.String())
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

func (c *cluster) lateenDoes(t *testing.T, args ...string) string {
	t.Helper()
	code, text := c.lateenSays(t, args...)
	require.Zero(t, code, text)
	return text
}

// markPodsReady marks Pods as ready until the test ends: no node runs here.
func markPodsReady(t *testing.T, client *kubernetes.Clientset) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
	})
	go func() {
		defer close(done)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: "app"})
			for i := 0; err == nil && i < len(pods.Items); i++ {
				p := &pods.Items[i]
				if p.Status.Phase == corev1.PodRunning || p.DeletionTimestamp != nil {
					continue
				}
				p.Status.Phase = corev1.PodRunning
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
				_, _ = client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{}) // or next time
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
}

// find returns an object, nil if there is none.
func (c *cluster) find(t *testing.T, kind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o, err := c.on(o).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return o
}

// TestInstallUpgradeUninstall is one story with one API server, from an empty cluster to one in
// which nothing of Lateen is left but what has to stay.
func TestInstallUpgradeUninstall(t *testing.T) {
	c := startCluster(t)
	markPodsReady(t, c.client)

	// What the API server refuses leaves nothing behind, not even the namespace.
	code, text := c.lateenSays(t, "install", "--image", "lateen:test", "--set", "pilot.resources.requests.cpu=lots")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "nothing is changed:\nDeployment istio-system/istiod: ")
	require.Nil(t, c.find(t, "Namespace", "", root))
	code, text = c.lateenSays(t, "install", "--image", "lateen:test", "--set", "pilot.bogus=1")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "pilot.bogus: there is no such value")
	code, text = c.lateenSays(t, "upgrade", "--image", "lateen:test")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "the revision default is not installed by lateen install; none is installed")

	strict := filepath.Join(t.TempDir(), "smcp.yaml")
	require.NoError(t, os.WriteFile(strict, []byte(strictMesh), 0o600))
	again := []string{"install", "--image", "lateen:test", "--set", "pilot.env.PILOT_PUSH_THROTTLE=50",
		"--set", "meshConfig.accessLogFile=/dev/stdout", "-f", strict}
	text = c.lateenDoes(t, again...)
	require.Contains(t, text, "creating Deployment istio-system/istiod")
	require.Contains(t, text, "creating PeerAuthentication istio-system/default", "of a kind that was not there")
	policy := c.get(t, "PeerAuthentication", root, "default").Object
	mode, _, _ := unstructured.NestedString(policy, "spec", "mtls", "mode")
	require.Equal(t, "STRICT", mode)
	deployment := c.get(t, "Deployment", root, "istiod")
	ready, _, _ := unstructured.NestedInt64(deployment.Object, "status", "availableReplicas")
	require.NotZero(t, ready, "it waits for replicas")
	require.Contains(t, text, "kubectl label namespace NAME istio-injection=enabled")

	// It is what a control plane needs.
	replica := c.start(t)
	replica.ready(t)
	replica.leads(t)
	c.route(t, replica)
	eventually(t, func(ct require.TestingT) { require.Equal(ct, "Fail Fail", c.policies(ct)) })

	// Again: nothing changes, and the policy of the webhook stays that of the leader.
	before := c.get(t, "Deployment", root, "istiod").GetResourceVersion()
	code, text = c.lateenSays(t, again...)
	require.Equal(t, 1, code, text)
	require.Contains(t, text, `else has set webhooks[name="rev.validation.lateen.io"].clientConfig.service.port`)
	c.lateenDoes(t, append(again, "--force-conflicts")...) // the port of the test
	require.Equal(t, before, c.get(t, "Deployment", root, "istiod").GetResourceVersion())
	require.Equal(t, "Fail Fail", c.policies(t))
	c.verifiesInjection(t, replica)
	c.upgrades(t)
	c.standsBeside(t)
	c.takesTheSeeds(t)

	// Uninstalling removes one revision, and never a namespace, the kinds or the root. Who still
	// asks for its proxies is named, before too.
	c.patch(t, "Namespace", "", "default", `{"metadata": {"labels": {"istio-injection": "enabled"}}}`)
	const asks = "warning: namespace default still asks for proxies of revision default (istio-injection=enabled)"
	require.Contains(t, c.lateenDoes(t, "uninstall", "--dry-run"), asks)
	text = c.lateenDoes(t, "uninstall")
	require.Contains(t, text, asks)
	c.patch(t, "Namespace", "", "default", `{"metadata": {"labels": {"istio-injection": null}}}`)
	require.Contains(t, text, "removing MutatingWebhookConfiguration lateen-injector-istio-system")
	for _, gone := range []string{"Deployment", "Service", "ServiceAccount", "NetworkPolicy", "Role"} {
		eventually(t, func(ct require.TestingT) { require.Nil(ct, c.find(t, gone, root, "istiod")) })
	}
	require.Nil(t, c.find(t, "ClusterRole", "", "lateen-istio-system"))
	require.NotNil(t, c.find(t, "Deployment", root, "istiod-canary"))
	require.NotNil(t, c.find(t, "Secret", root, "istio-ca-secret"))
	require.NotNil(t, c.find(t, "PeerAuthentication", root, "default"), "uninstalling opens nothing")
	require.NotNil(t, c.find(t, "Namespace", "", root))
	require.NotNil(t, c.find(t, "CustomResourceDefinition", "", "virtualservices.networking.istio.io"))
	code, text = c.lateenSays(t, "uninstall")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "the revision default is not installed by lateen install; installed: canary")
	c.lateenDoes(t, "uninstall", "--revision", "canary")

	c.prechecks(t)
	c.refusesIstio(t)
}

const strictMesh = `apiVersion: maistra.io/v2
kind: ServiceMeshControlPlane
metadata: {name: basic, namespace: istio-system}
spec:
  security: {dataPlane: {mtls: true}}
  gateways: {enabled: false}
`

const plugin = `apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: headers, namespace: default}
spec: {url: oci://registry.test/headers, imagePullSecret: pull}
`

// prechecks says of each object whether it would be in force, and changes nothing.
func (c *cluster) prechecks(t *testing.T) {
	require.Contains(t, c.lateenDoes(t, "precheck", "--all"), "objects: go")
	c.apply(t, fmt.Sprintf(goodRoute, "good"))
	c.apply(t, fmt.Sprintf(badRoute, "bad"))
	c.apply(t, plugin)
	c.apply(t, "{apiVersion: v1, kind: Secret, metadata: {name: west, namespace: "+root+
		`, labels: {istio/multiCluster: "true"}}, stringData: {west: "never read"}}`)
	code, text := c.lateenSays(t, "precheck", "--all")
	require.Equal(t, 1, code, text)
	require.Regexp(t, `VirtualService default/good +go`, text)
	require.Regexp(t, `VirtualService default/bad +no go +spec.http\[0\].match\[0\].uri.regex`, text)
	require.Regexp(t, `WasmPlugin default/headers +no go +spec.imagePullSecret`, text)
	require.Regexp(t, `Secret istio-system/west +no go +metadata.labels\[istio/multiCluster\] = true`, text)
	require.Nil(t, c.find(t, "Deployment", root, "istiod"), "nothing is changed")
}

// upgrades changes what is installed, and keeps what an operator has patched.
func (c *cluster) upgrades(t *testing.T) {
	c.patch(t, "HorizontalPodAutoscaler", root, "istiod", `{"spec": {"minReplicas": 3, "maxReplicas": 6}}`)
	code, text := c.lateenSays(t, "diff", "--set", "pilot.cpu.targetAverageUtilization=60")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "-        averageUtilization: 80\n+        averageUtilization: 60\n")
	require.NotContains(t, text, "minReplicas: 2")

	text = c.lateenDoes(t, "upgrade", "--set", "networkPolicy.enabled=false",
		"--set", "pilot.env.PILOT_DEBOUNCE_MAX=5s")
	require.Contains(t, text, "removing NetworkPolicy istio-system/istiod")
	require.Contains(t, text, "spec.minReplicas stays as somebody else has set it")
	require.Nil(t, c.find(t, "NetworkPolicy", root, "istiod"))
	deployment, err := c.get(t, "Deployment", root, "istiod").MarshalJSON()
	require.NoError(t, err)
	require.Contains(t, string(deployment), "PILOT_DEBOUNCE_MAX", "what is new")
	require.Contains(t, string(deployment), "PILOT_PUSH_THROTTLE", "what was installed with")
	scaler := c.get(t, "HorizontalPodAutoscaler", root, "istiod")
	least, _, _ := unstructured.NestedInt64(scaler.Object, "spec", "minReplicas")
	require.Equal(t, int64(3), least)

	// Nothing answers at the port that is installed.
	_, text = c.lateenSays(t, "verify")
	const refused = `Namespace default +a new Pod is refused: .*failed calling webhook "rev.object.sidecar-injector`
	require.Regexp(t, refused, text)
	require.Contains(t, text, "\n1 of ", "all else is as installed")
	c.patch(t, "Deployment", root, "istiod", `{"metadata": {"labels": {"istio": null}}}`)
	_, text = c.lateenSays(t, "verify")
	require.Regexp(t, `Deployment istio-system/istiod +differs; lateen diff shows how`, text)
	c.lateenDoes(t, "upgrade", "--force-conflicts")
}

// verifiesInjection tries Pods: one that asks itself if no namespace does, and else one in each
// namespace that does.
func (c *cluster) verifiesInjection(t *testing.T, r *replica) {
	c.routeInjection(t, r)
	eventually(t, func(ct require.TestingT) { // the roots come with the leader's next look
		_, text := c.lateenSays(t, "verify")
		require.Regexp(ct, `Namespace default +ok: a new Pod gets its proxy`, text)
	})
	for name, labels := range map[string]string{
		"shop":   `{"istio-injection": "enabled"}`,
		"strict": `{"istio-injection": "enabled", "pod-security.kubernetes.io/enforce": "baseline"}`,
	} {
		c.apply(t, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+name+`", "labels": `+labels+`}}`)
	}
	_, text := c.lateenSays(t, "verify")
	require.Regexp(t, `Namespace shop +ok: a new Pod gets its proxy`, text)
	require.Regexp(t, `Namespace strict +a new Pod is refused: .*NET_ADMIN`, text)
	require.NotContains(t, text, "Namespace default")
	pods, err := c.client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items, "nothing is stored")
	for _, name := range []string{"shop", "strict"} {
		c.patch(t, "Namespace", "", name, `{"metadata": {"labels": {"istio-injection": "disabled"}}}`)
	}
	c.lateenDoes(t, "upgrade", "--force-conflicts") // the port of the test
}

// standsBeside installs a second revision in the same namespace.
func (c *cluster) standsBeside(t *testing.T) {
	text := c.lateenDoes(t, "install", "--image", "lateen:test", "--revision", "canary", "--replicas", "1")
	require.Contains(t, text, "kubectl label namespace NAME istio.io/rev=canary")
	require.NotNil(t, c.find(t, "Deployment", root, "istiod"))
}

// takesTheSeeds asks the API server about what the inputs of users of Istio and Maistra make.
func (c *cluster) takesTheSeeds(t *testing.T) {
	seeds, err := filepath.Glob("../../internal/install/spec/testdata/seed-*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, seeds)
	for _, seed := range seeds {
		archive, err := txtar.ParseFile(seed)
		require.NoError(t, err)
		args := []string{"install", "--image", "lateen:test", "--revision", "seed", "--dry-run"}
		for line := range strings.Lines(string(archive.Comment)) {
			if strings.HasPrefix(line, "--") {
				args = append(args, strings.Fields(line)...)
			}
		}
		dir := t.TempDir()
		for _, f := range archive.Files {
			if f.Name == "want" {
				continue
			}
			file := filepath.Join(dir, f.Name)
			require.NoError(t, os.WriteFile(file, f.Data, 0o600))
			args = append(args, "-f", file)
		}
		require.Regexp(t, `Deployment istio-system/istiod-seed +created`, c.lateenDoes(t, args...))
	}
}

// refusesIstio leaves what is Istio's alone, and stands beside it as another revision.
func (c *cluster) refusesIstio(t *testing.T) {
	for document := range strings.SplitSeq(istios, "---\n") {
		c.apply(t, document)
	}
	version := c.get(t, "Role", root, "istiod").GetResourceVersion()
	code, text := c.lateenSays(t, "install", "--image", "lateen:test")
	require.Equal(t, 1, code, text)
	for _, want := range []string{
		"nothing is changed:", "Service istio-system/istiod is there already: it is Istio's",
		"Role istio-system/istiod is there already: it is Istio's",
		"MutatingWebhookConfiguration istio-sidecar-injector injects for the revision default too",
		"To stand beside it: lateen install --revision lateen, and label a namespace istio.io/rev=lateen",
	} {
		require.Contains(t, text, want)
	}
	require.Nil(t, c.find(t, "Deployment", root, "istiod"), "nothing is half installed")
	c.patch(t, "Namespace", "", "default", `{"metadata": {"labels": {"istio-injection": "enabled"}}}`)
	_, text = c.lateenSays(t, "precheck")
	require.Regexp(t, `Namespace default +no go +metadata.labels\[istio-injection\] = enabled +`+
		`MutatingWebhookConfiguration istio-sidecar-injector \(webhook namespace\.`, text)
	c.patch(t, "Namespace", "", "default", `{"metadata": {"labels": {"istio-injection": null}}}`)
	require.Regexp(t, `installation revision default +no go +Service istio-system/istiod is there already`, text)
	require.Equal(t, version, c.get(t, "Role", root, "istiod").GetResourceVersion())

	c.patch(t, "DestinationRule", root, "default", `{"metadata": {"managedFields": [{}]}}`) // as if by others
	strict := filepath.Join(t.TempDir(), "smcp.yaml")
	require.NoError(t, os.WriteFile(strict, []byte(strictMesh), 0o600))
	text = c.lateenDoes(t, "install", "--image", "lateen:test", "--revision", "lateen", "-f", strict)
	require.Contains(t, text, "DestinationRule istio-system/default stays as somebody else has made it")
	require.NotNil(t, c.find(t, "Deployment", root, "istiod-lateen"))
	c.lateenDoes(t, "uninstall", "--revision", "lateen")
	require.Equal(t, version, c.get(t, "Role", root, "istiod").GetResourceVersion())
	require.NotNil(t, c.find(t, "ConfigMap", root, "istio"))
}
