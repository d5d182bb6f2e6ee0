package incluster

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/testkit/certs"
)

// otherPod is the Pod of another replica. The finalizer keeps it while it is being deleted.
const otherPod = `apiVersion: v1
kind: Pod
metadata:
  name: istiod-other
  namespace: istio-system
  labels: {app: istiod, istio.io/rev: default, app.kubernetes.io/name: lateen, sidecar.istio.io/inject: "false"}
  finalizers: [lateen.io/test]
spec:
  serviceAccountName: istiod
  containers: [{name: discovery, image: lateen}]
`

// admission makes an API server prove itself to webhooks with the files crt and key of a directory.
const admission = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %s/webhooks.conf
`

// webhooks would name istiod.istio-system.svc, if the webhook had the port of HTTPS here.
const webhooks = `apiVersion: v1
kind: Config
users:
- name: "*"
  user: {client-certificate: %[1]s/crt, client-key: %[1]s/key}
`

// TestLastReplicaThatStopsLeavesIgnore is one story with one API server, which proves itself to the
// webhook by certificate.
func TestLastReplicaThatStopsLeavesIgnore(t *testing.T) {
	files, authority := t.TempDir(), certs.NewAuthority(t, "webhook clients")
	pair := authority.Issue(t, "kube-apiserver")
	write := func(name, content string) string {
		path := filepath.Join(files, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	write("crt", pair.Certificate)
	write("key", pair.Key)
	write("webhooks.conf", fmt.Sprintf(webhooks, files))
	c := newCluster(t, "--admission-control-config-file="+write("admission.yaml", fmt.Sprintf(admission, files)))
	secured := []string{
		"--webhook-client-ca", write("ca.crt", authority.PEM), "--webhook-client-name", "kube-apiserver",
		"--webhook-require-client-cert",
	}
	answers := func(r *replica) {
		t.Helper()
		r.ready(t)
		r.leads(t)
		c.route(t, r)
		eventually(t, func(ct require.TestingT) { require.Equal(ct, "Fail Fail", c.policies(ct)) })
		// The API server hears of a webhook's new port a moment later.
		eventually(t, func(ct require.TestingT) {
			require.ErrorContains(ct, c.try(t, fmt.Sprintf(badRoute, "bad")), refusal)
		})
	}

	// Another replica is ready: the webhook is still answered.
	c.apply(t, otherPod)
	c.patch(t, "Pod", root, "istiod-other", `{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}`,
		"status")
	first := c.start(t, secured...)
	answers(first)
	anonymousIsRefused(t, first)
	first.stop()
	require.Equal(t, "Fail Fail", c.policies(t))

	// The other one stops as well.
	require.NoError(t, c.client.CoreV1().Pods(root).Delete(t.Context(), "istiod-other", metav1.DeleteOptions{}))
	second := c.start(t)
	answers(second)
	second.stop()
	require.Equal(t, "Ignore Ignore", c.policies(t), second.said())
	eventually(t, func(ct require.TestingT) { require.NoError(ct, c.try(t, fmt.Sprintf(goodRoute, "good"))) })

	answers(c.start(t))
	for _, r := range []*replica{first, second} {
		require.NotContains(t, r.said(), "forbidden")
	}
}

// anonymousIsRefused asks the webhook without a certificate.
func anonymousIsRefused(t *testing.T, r *replica) {
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/ready", r.ports["webhook"]))
	if err == nil {
		_ = response.Body.Close()
	}
	require.ErrorContains(t, err, "bad certificate")
	r.await(t, func(ct require.TestingT) {
		require.Equal(ct, 1.0, r.metric(`lateen_webhook_clients_refused_total{reason="no_certificate"}`))
	})
}
