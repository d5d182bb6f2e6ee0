package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

const (
	adminAddress = "127.0.0.1:15000"
	readyPort    = 15021
	// audience is that of the tokens which proxies show to the control plane, Istio's.
	audience = "istio-ca"
	// rootsConfigMap has the roots of the mesh in each namespace, under rootsKey.
	rootsConfigMap, rootsKey = "istio-ca-root-cert", "root-cert.pem"
)

// proxyContainer is the name of the proxy's container. A Pod that has one itself says by that which
// variables the proxy has beside those of the injection.
const proxyContainer = "istio-proxy"

// startProxy starts the pod's agent, which starts the Envoy.
func (w *worker) startProxy() error {
	args, env, err := w.proxyCommand()
	if err != nil {
		return err
	}
	args = append([]string{"/bin/sh", "-c", `cd "$0" && exec "$@"`, w.proxyDir(), w.k.o.Agent}, args...)
	proxy, err := w.launchProxy(args, env)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.proxy = proxy
	w.mu.Unlock()
	return nil
}

// Proxy returns the running agent of a Pod, or nil if there is none.
func (k *Kubelet) Proxy(namespace, name string) *podnet.Process {
	w := k.worker(namespace, name)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.proxy
}

// ProxyLog returns what a Pod's agent and Envoy have written.
func (k *Kubelet) ProxyLog(namespace, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(k.o.Dir, namespace+"_"+name, proxyContainer+".log"))
	return string(text), err
}

// proxyDir stands for the file system of the proxy's container.
func (w *worker) proxyDir() string { return filepath.Join(w.dir(), "proxy") }

// mount puts the files of the proxy's container in place: a token, the roots of the mesh, and the
// labels of the Pod.
func (w *worker) mount() error {
	token, err := w.token()
	if err != nil {
		return fmt.Errorf("a token of service account %s: %w", w.pod.Spec.ServiceAccountName, err)
	}
	roots, err := w.roots()
	if err != nil {
		return err
	}
	var labels strings.Builder
	for _, name := range slices.Sorted(maps.Keys(w.pod.Labels)) {
		fmt.Fprintf(&labels, "%s=%q\n", name, w.pod.Labels[name])
	}
	for name, text := range map[string]string{
		"var/run/secrets/tokens/istio-token": token,
		rootsFile:                            roots,
		"etc/istio/pod/labels":               labels.String(),
	} {
		if !w.mounts(name) {
			continue
		}
		path := filepath.Join(w.proxyDir(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := w.mountMemory(); err != nil {
		return err
	}
	return filepath.WalkDir(w.proxyDir(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, podnet.ProxyUID, podnet.ProxyUID)
	})
}

// mountMemory puts the volume of the bootstrap in place, an emptyDir of medium Memory. It goes with
// the Pod.
func (w *worker) mountMemory() error {
	volume, err := os.MkdirTemp("/dev/shm", "lateen-pod-")
	if err != nil {
		return err
	}
	w.memory = volume
	at := filepath.Join(w.proxyDir(), "etc/istio/proxy")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return errors.Join(os.Chown(volume, podnet.ProxyUID, podnet.ProxyUID), os.Symlink(volume, at))
}

// roots waits for the roots of the mesh: a kubelet starts no container that lacks a volume.
func (w *worker) roots() (string, error) {
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		m, err := w.k.o.Client.CoreV1().ConfigMaps(w.namespace).Get(w.alive, rootsConfigMap, metav1.GetOptions{})
		if err == nil && m.Data[rootsKey] != "" {
			return m.Data[rootsKey], nil
		}
		select {
		case <-t.C:
		case <-w.alive.Done():
			return "", w.alive.Err()
		}
	}
}

// rootsFile is where the roots of the mesh are mounted.
const rootsFile = "var/run/secrets/istio/root-cert.pem"

// refreshRoots writes the roots anew when they have changed, as a kubelet does with what it has
// mounted.
func (w *worker) refreshRoots() {
	m, err := w.k.maps.ConfigMaps(w.namespace).Get(rootsConfigMap)
	if w.proxy == nil || err != nil || m.Data[rootsKey] == "" || m.Data[rootsKey] == w.mounted {
		return
	}
	w.mounted = m.Data[rootsKey]
	path := filepath.Join(w.proxyDir(), rootsFile)
	err = os.WriteFile(path+".new", []byte(w.mounted), 0o644)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		w.k.o.Log.Error("the roots of a pod are not written", "pod", w.namespace+"/"+w.name, "error", err)
	}
}

// proxyEnv are the variables of the proxy's container, as the injection template has them.
func (w *worker) proxyEnv() ([]string, error) {
	mode := "REDIRECT"
	if w.role() == gateway {
		mode = "NONE"
	}
	config, err := json.Marshal(map[string]any{
		"binaryPath":               w.k.o.Envoy,
		"discoveryAddress":         w.k.o.Discovery.String(),
		"concurrency":              1,
		"drainDuration":            "5s",
		"terminationDrainDuration": "0.5s",
	})
	if err != nil {
		return nil, err
	}
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"PROXY_CONFIG=" + string(config),
		"ISTIOD_SAN=" + w.k.o.ServerName,
		"POD_NAME=" + w.name,
		"POD_NAMESPACE=" + w.namespace,
		"INSTANCE_IP=" + w.net.Addr.String(),
		"SERVICE_ACCOUNT=" + w.pod.Spec.ServiceAccountName,
		"ISTIO_META_CLUSTER_ID=Kubernetes",
		"ISTIO_META_NODE_NAME=" + w.node.name,
		"ISTIO_META_INTERCEPTION_MODE=" + mode,
	}
	return append(env, w.ownProxyEnv()...), nil
}

// ownProxyEnv are the variables that the Pod itself has for its proxy. Of a gateway that Lateen
// deploys these are only those for the node's metadata: the others say where things are in a
// cluster with images and DNS, which processes of this machine find elsewhere.
func (w *worker) ownProxyEnv() (env []string) {
	_, deployed := w.pod.Labels["gateway.networking.k8s.io/gateway-name"]
	for _, c := range w.pod.Spec.Containers {
		for _, e := range c.Env {
			if deployed && (e.ValueFrom != nil || !strings.HasPrefix(e.Name, "ISTIO_META_")) {
				continue
			}
			if c.Name == proxyContainer {
				env = append(env, e.Name+"="+e.Value)
			}
		}
	}
	return env
}

func (w *worker) token() (string, error) {
	ctx, cancel := context.WithTimeout(w.alive, time.Minute)
	defer cancel()
	seconds := int64(time.Hour.Seconds())
	request, err := w.k.o.Client.CoreV1().ServiceAccounts(w.namespace).CreateToken(ctx, w.pod.Spec.ServiceAccountName,
		&authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{
				Audiences: []string{audience}, ExpirationSeconds: &seconds,
				BoundObjectRef: &authenticationv1.BoundObjectReference{
					Kind:       "Pod",
					APIVersion: "v1",
					Name:       w.name,
					UID:        w.uid,
				},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

// proxyReady tells whether the agent says that the Envoy serves.
func (w *worker) proxyReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	at := netip.AddrPortFrom(w.net.Addr, readyPort)
	return get(ctx, w.k.o.Network.Dial, "http://"+at.String()+"/healthz/ready")
}

// drainProxy makes the Envoy ask those connected to it to leave.
func (w *worker) drainProxy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+adminAddress+"/drain_listeners?graceful&skip_exit", nil)
	if err != nil {
		return
	}
	client := http.Client{Transport: &http.Transport{DialContext: w.net.Dial, DisableKeepAlives: true}}
	if response, err := client.Do(request); err == nil {
		_ = response.Body.Close()
	}
}
