package kubelet

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

// lowPorts is the sysctl from which port on a program needs no rights to listen.
const lowPorts = "net.ipv4.ip_unprivileged_port_start"

func (w *worker) sysctls() []corev1.Sysctl {
	if w.pod.Spec.SecurityContext == nil {
		return nil
	}
	return w.pod.Spec.SecurityContext.Sysctls
}

// program returns what a container runs.
func (w *worker) program(c *container) (Program, error) {
	image := c.Image
	if tag := strings.LastIndex(image, ":"); tag > strings.LastIndex(image, "/") {
		image = image[:tag]
	}
	if image == "lateen/sample" {
		return Program{Args: []string{w.k.o.Self, "sample"}}, nil
	}
	program, ok := w.k.o.Programs[image]
	if !ok {
		return Program{}, fmt.Errorf("container %s has the image %s: want lateen/sample or one of %v", c.Name, c.Image,
			slices.Sorted(maps.Keys(w.k.o.Programs)))
	}
	return program, nil
}

// files leads from the paths that a container knows to where these files are.
func (w *worker) files(c *container, program Program) *strings.Replacer {
	var pairs []string
	for _, m := range c.VolumeMounts {
		pairs = append(pairs, m.MountPath, w.volumeDir(m.Name))
	}
	for _, path := range slices.Sorted(maps.Keys(program.Files)) {
		pairs = append(pairs, path, program.Files[path])
	}
	return strings.NewReplacer(pairs...)
}

// env returns the variables of a container.
func (w *worker) env(c *container, files *strings.Replacer) []string {
	env := []string{"HOSTNAME=" + w.name, "LATEEN_APP_ADDRESS=0.0.0.0", "PATH=" + os.Getenv("PATH")}
	for _, e := range c.Env {
		value := files.Replace(e.Value)
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value = w.field(e.ValueFrom.FieldRef.FieldPath)
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

// field is a field of the Pod that variables may have; empty for others.
func (w *worker) field(path string) string {
	switch path {
	case "metadata.name":
		return w.name
	case "metadata.namespace":
		return w.namespace
	case "status.podIP":
		return w.net.Addr.String()
	case "status.hostIP":
		return podnet.Gateway.String()
	case "spec.serviceAccountName":
		return w.pod.Spec.ServiceAccountName
	case "spec.nodeName":
		return w.node.name
	}
	return ""
}

func (w *worker) volumeDir(name string) string { return filepath.Join(w.dir(), "volumes", name) }

// mountVolumes writes the Pod's Secrets and ConfigMaps, as soon as there are all of them.
func (w *worker) mountVolumes() error {
	for _, v := range w.pod.Spec.Volumes {
		content, items, err := w.awaitVolume(v)
		if err != nil {
			return fmt.Errorf("volume %s: %w", v.Name, err)
		}
		if err := os.MkdirAll(w.volumeDir(v.Name), 0o755); err != nil {
			return err
		}
		if len(items) == 0 {
			for key := range content {
				items = append(items, corev1.KeyToPath{Key: key, Path: key})
			}
		}
		for _, item := range items {
			path := filepath.Join(w.volumeDir(v.Name), item.Path)
			if err := os.WriteFile(path, content[item.Key], 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitVolume waits for the content of a volume, which a kubelet does too.
func (w *worker) awaitVolume(v corev1.Volume) (content map[string][]byte, items []corev1.KeyToPath, err error) {
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for {
		switch {
		case v.Secret != nil:
			secrets := w.k.o.Client.CoreV1().Secrets(w.namespace)
			secret, err := secrets.Get(w.alive, v.Secret.SecretName, metav1.GetOptions{})
			if err == nil {
				return secret.Data, v.Secret.Items, nil
			}
		case v.ConfigMap != nil && v.ConfigMap.Optional != nil && *v.ConfigMap.Optional:
			return nil, nil, nil
		case v.ConfigMap != nil:
			m, err := w.k.o.Client.CoreV1().ConfigMaps(w.namespace).Get(w.alive, v.ConfigMap.Name, metav1.GetOptions{})
			if err == nil {
				content = map[string][]byte{}
				for key, text := range m.Data {
					content[key] = []byte(text)
				}
				return content, v.ConfigMap.Items, nil
			}
		default:
			return nil, nil, nil
		}
		select {
		case <-t.C:
		case <-w.alive.Done():
			return nil, nil, w.alive.Err()
		}
	}
}

// Execution is a command to run in a container.
type Execution struct {
	Namespace, Pod, Container string
	// Command is its name among Program.Commands of the container's image, and its arguments.
	Command []string
}

// Execute runs a command in a container and returns what it writes, as `kubectl exec` does.
func (k *Kubelet) Execute(ctx context.Context, e Execution) (output string, err error) {
	w := k.worker(e.Namespace, e.Pod)
	found, exists, err := k.pods.GetIndexer().GetByKey(e.Namespace + "/" + e.Pod)
	if err != nil || !exists || w == nil || w.place() == nil {
		return "", fmt.Errorf("no Pod %s/%s runs here", e.Namespace, e.Pod)
	}
	all := found.(*corev1.Pod).Spec.Containers
	at := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == e.Container })
	if at < 0 || len(e.Command) == 0 {
		return "", fmt.Errorf("Pod %s/%s: want one of its containers and a command", e.Namespace, e.Pod)
	}
	c := &container{Container: all[at]}
	program, err := w.program(c)
	if err != nil {
		return "", err
	}
	path, ok := program.Commands[e.Command[0]]
	if !ok {
		return "", fmt.Errorf("image %s has no command %s", c.Image, e.Command[0])
	}
	return w.execute(ctx, append([]string{path}, e.Command[1:]...), w.env(c, w.files(c, program)))
}

// execute runs a program in the Pod until it ends, or the context does.
func (w *worker) execute(ctx context.Context, args, env []string) (string, error) {
	r, pipe, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	process, err := w.net.Start(podnet.Command{
		Args: podnet.InitArgs(w.k.o.Self, w.resolvConf(), podnet.User{}, args), Env: env, Output: pipe,
	})
	_ = pipe.Close()
	if err != nil {
		return "", err
	}
	defer context.AfterFunc(ctx, process.Kill)()
	text, err := io.ReadAll(r)
	<-process.Done()
	return string(text), err
}
