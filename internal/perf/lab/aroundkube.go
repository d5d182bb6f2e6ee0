package lab

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/lateen-mesh/lateen/internal/perf/controlplane"
)

// kube is an API server with its etcd, and the controller that makes EndpointSlices.
type kube struct {
	dir                 string
	port                uint16
	etcd, api, endpoint *daemon
	cluster             *controlplane.Cluster
}

// startKube starts one without objects.
func (r *run) startKube(ctx context.Context) (_ *kube, err error) {
	k := &kube{dir: filepath.Join(r.StateDir, "kube")}
	defer func() {
		if err != nil {
			k.stop()
		}
	}()
	if k.port, err = freePort(); err != nil {
		return nil, err
	}
	if err := k.writeFiles(); err != nil {
		return nil, err
	}
	if k.etcd, err = startDaemon(k.dir, "etcd", r.Tools.Kube, "etcd", "--dir", k.path("etcd"),
		"--socket", k.path("etcd.sock")); err != nil {
		return nil, err
	}
	if k.api, err = startDaemon(k.dir, "apiserver", append([]string{r.Tools.Kube}, k.apiServer()...)...); err != nil {
		return nil, err
	}
	if err := k.api.await(ctx, r.Patience, k.ready); err != nil {
		return nil, err
	}
	if k.endpoint, err = startDaemon(k.dir, "controller-manager", r.Tools.Kube, "controller-manager",
		"--kubeconfig="+k.kubeconfig(), "--controllers=endpointslice-controller", "--secure-port=0",
		"--leader-elect=false", "--kube-api-qps=1000", "--kube-api-burst=2000"); err != nil {
		return nil, err
	}
	k.cluster, err = controlplane.OpenCluster(k.kubeconfig())
	return k, err
}

func (k *kube) path(name string) string { return filepath.Join(k.dir, name) }

func (k *kube) kubeconfig() string { return k.path("kubeconfig") }

// writeFiles writes what the processes read: a key for tokens, one user who may do everything, and
// a kubeconfig of that user. The server makes its own certificate.
func (k *kube) writeFiles() error {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	token := rand.Text()
	for name, content := range map[string]string{
		"tokens.key": string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
		"users.csv":  token + ",lab,lab,system:masters\n",
		"kubeconfig": fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: lab, cluster: {server: "https://%s", certificate-authority: certs/apiserver.crt}}]
users: [{name: lab, user: {token: %s}}]
contexts: [{name: lab, context: {cluster: lab, user: lab}}]
current-context: lab
`, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(k.port))), token),
	} {
		if err := os.WriteFile(k.path(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// apiServer returns the arguments of kube-apiserver. There is no controller for service accounts,
// so Pods have none.
func (k *kube) apiServer() []string {
	return []string{
		"apiserver", "--etcd-servers=unix://" + k.path("etcd.sock"),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--secure-port=" + strconv.Itoa(int(k.port)), "--cert-dir=" + k.path("certs"),
		"--token-auth-file=" + k.path("users.csv"), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + k.path("tokens.key"),
		"--service-account-signing-key-file=" + k.path("tokens.key"),
		"--service-cluster-ip-range=10.96.0.0/16", "--disable-admission-plugins=ServiceAccount",
	}
}

// ready returns nil when the API server serves.
func (k *kube) ready(ctx context.Context) error {
	if _, err := os.Stat(k.path("certs/apiserver.crt")); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", k.kubeconfig())
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	return get(ctx, client, config.Host+"/readyz")
}

// stop ends all processes, those first that others need least.
func (k *kube) stop() {
	for _, d := range []*daemon{k.endpoint, k.api, k.etcd} {
		d.stop()
	}
}

// err returns how a process has ended, if one has.
func (k *kube) err() (err error) {
	for _, d := range []*daemon{k.endpoint, k.api, k.etcd} {
		select {
		case <-d.ended:
			err = errors.Join(err, fmt.Errorf("%s has ended (%s); its log is %s", d.name, d.cmd.ProcessState, d.log))
		default:
		}
	}
	return err
}
