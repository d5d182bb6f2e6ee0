package incluster

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
)

// patience bounds every wait: the machine may be busy.
const patience = 2 * time.Minute

const root = "istio-system"

// cluster is a real API server with Lateen's manifests applied.
type cluster struct {
	api     *kubeapi.Server
	client  *kubernetes.Clientset
	objects dynamic.Interface
	lateen  string // what people run
	server  string // what images run
}

// startCluster starts an API server.
func startCluster(t *testing.T, apiServerFlags ...string) *cluster {
	return startClusterWith(t, kubeapi.Options{APIServerFlags: apiServerFlags})
}

// startClusterWith starts an API server with options.
func startClusterWith(t *testing.T, options kubeapi.Options) *cluster {
	if testing.Short() {
		t.Skip("starts a Kubernetes control plane")
	}
	lateenserve.LookAtSources(t)
	api := kubeapi.Start(t, options)
	lateen, err := built.lateen()
	require.NoError(t, err)
	c := &cluster{api: api, lateen: lateen, server: filepath.Join(filepath.Dir(lateen), "lateen-discovery")}
	c.client, err = kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	c.objects, err = dynamic.NewForConfig(api.Config())
	require.NoError(t, err)

	return c
}

// newCluster applies Lateen's manifests too.
func newCluster(t *testing.T, apiServerFlags ...string) *cluster {
	c := startCluster(t, apiServerFlags...)
	c.api.InstallIstioCRDs(t)
	c.applyManifests(t)
	return c
}

// applyManifests applies what lateen manifest prints, with further flags.
func (c *cluster) applyManifests(t *testing.T, flags ...string) {
	t.Helper()
	args := append([]string{"manifest", "--image", "lateen:test", "--crds=false", "--part", "all"}, flags...)
	manifests, err := exec.Command(c.lateen, args...).Output() //nolint:gosec // our own
	require.NoError(t, err)
	for document := range bytes.SplitSeq(manifests, []byte("---\n")) {
		if len(document) > 0 {
			c.apply(t, string(document))
		}
	}
}

// resources say where kinds are that Lateen does not read.
var resources = map[string]schema.GroupVersionResource{
	"ClusterRole": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"WasmPlugin":  {Group: "extensions.istio.io", Version: "v1alpha1", Resource: "wasmplugins"},
	"ClusterRoleBinding": {
		Group:    "rbac.authorization.k8s.io",
		Version:  "v1",
		Resource: "clusterrolebindings",
	},
	"Role":        {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding": {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"CustomResourceDefinition": {
		Group:    "apiextensions.k8s.io",
		Version:  "v1",
		Resource: "customresourcedefinitions",
	},
	"PodDisruptionBudget": {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"HorizontalPodAutoscaler": {
		Group:    "autoscaling",
		Version:  "v2",
		Resource: "horizontalpodautoscalers",
	},
	"NetworkPolicy": {Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
	"MutatingWebhookConfiguration": {
		Group:    "admissionregistration.k8s.io",
		Version:  "v1",
		Resource: "mutatingwebhookconfigurations",
	},
	"ValidatingWebhookConfiguration": {
		Group:    "admissionregistration.k8s.io",
		Version:  "v1",
		Resource: "validatingwebhookconfigurations",
	},
}

// on gives the client of an object's kind in its namespace.
func (c *cluster) on(o *unstructured.Unstructured) dynamic.ResourceInterface {
	where, foreign := resources[o.GetKind()]
	switch {
	case o.GetKind() == "Gateway" && o.GroupVersionKind().Group == kinds.GatewayAPIGroup:
		where = kinds.Of(kinds.KubernetesGateway).GroupVersionResource()
	case !foreign:
		where = kinds.Of(kinds.Kind(o.GetKind())).GroupVersionResource()
	}
	all := c.objects.Resource(where)
	if o.GetNamespace() == "" {
		return all
	}
	return all.Namespace(o.GetNamespace())
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	o, err := parse(text)
	require.NoError(t, err, text)
	return o
}

func parse(text string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	return o, yaml.Unmarshal([]byte(text), &o.Object)
}

func (c *cluster) apply(t *testing.T, text string) {
	require.NoError(t, c.try(t, text), text)
}

// try applies a manifest as kubectl apply --server-side does.
func (c *cluster) try(t *testing.T, text string) error {
	o := object(t, text)
	_, err := c.on(o).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true})
	return err
}

// patch merges something into an object.
func (c *cluster) patch(t *testing.T, kind, namespace, name, body string, subresources ...string) {
	o := &unstructured.Unstructured{}
	o.SetKind(kind)
	o.SetNamespace(namespace)
	_, err := c.on(o).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{},
		subresources...)
	require.NoError(t, err)
}

// get reads an object. The group is only needed for a kind whose name another kind has too.
func (c *cluster) get(t require.TestingT, kind, namespace, name string, group ...string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if len(group) > 0 {
		o.SetAPIVersion(group[0] + "/v1")
	}
	o.SetKind(kind)
	o.SetNamespace(namespace)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	o, err := c.on(o).Get(ctx, name, metav1.GetOptions{})
	require.NoError(t, err)
	return o
}

// condition is what Lateen says of an object: "True 3 …".
type condition struct {
	status, reason, message string
	generation, observed    int64
}

func (c *cluster) condition(t require.TestingT, kind, name string) condition {
	o := c.get(t, kind, "default", name)
	all, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	require.NoError(t, err)
	found := condition{generation: o.GetGeneration()}
	found.observed, _, _ = unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	for _, x := range all {
		if one, ok := x.(map[string]any); ok && one["type"] == "Accepted" {
			found.status, _ = one["status"].(string)
			found.reason, _ = one["reason"].(string)
			found.message, _ = one["message"].(string)
		}
	}
	return found
}

func eventually(t *testing.T, f func(c require.TestingT)) {
	t.Helper()
	require.EventuallyWithT(t, func(c *collector) { f(c) }, patience, 50*time.Millisecond)
}

// token is one of a service account of Lateen.
func (c *cluster) token(t *testing.T, account string) string {
	token, err := c.client.CoreV1().ServiceAccounts(root).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return token.Status.Token
}

// kubeconfig is one with the token of Lateen's service account.
func (c *cluster) kubeconfig(t *testing.T) string { return c.kubeconfigOf(t, "istiod") }

// kubeconfigOf is one with the token of the service account of a revision of Lateen.
func (c *cluster) kubeconfigOf(t *testing.T, account string) string {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	config := c.api.Config()
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"c": {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: c.token(t, account)}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file))
	return file
}

// route lets the API server reach the webhook of a replica: nothing carries traffic to Services
// here, but an ExternalName it resolves itself.
func (c *cluster) route(t *testing.T, r *replica) {
	c.patch(t, "Service", root, "istiod",
		`{"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": null, "clusterIPs": null,
		"ipFamilies": null, "ipFamilyPolicy": null, "internalTrafficPolicy": null}}`)
	c.onWebhooks(t, func(webhook map[string]any) {
		require.NoError(t, unstructured.SetNestedField(webhook, r.port(t, "webhook"), "clientConfig", "service",
			"port"))
	})
}

// onWebhooks edits each webhook of the webhook's configuration, which a replica writes to as well.
func (c *cluster) onWebhooks(t *testing.T, edit func(webhook map[string]any)) {
	require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		configuration := c.get(t, "ValidatingWebhookConfiguration", "", "lateen-validator-istio-system")
		for _, w := range configuration.Object["webhooks"].([]any) {
			edit(w.(map[string]any))
		}
		_, err := c.on(configuration).Update(t.Context(), configuration, metav1.UpdateOptions{})
		return err
	}))
}

// policies are the failure policies of the webhooks.
func (c *cluster) policies(t require.TestingT) string {
	configuration := c.get(t, "ValidatingWebhookConfiguration", "", "lateen-validator-istio-system")
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	require.NoError(t, err)
	var all []string
	for _, w := range webhooks {
		policy, _, _ := unstructured.NestedString(w.(map[string]any), "failurePolicy")
		all = append(all, policy)
	}
	return strings.Join(all, " ")
}
