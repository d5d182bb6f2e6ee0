package kubelet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

// statusAnnotation is on Pods that the injection has changed, and initContainer sets their rules.
const statusAnnotation, initContainer = "sidecar.istio.io/status", "istio-init"

// injected reports whether the injection has made the Pod's sidecar. It is run as it stands then:
// its rules, arguments and variables, and of its files those that it mounts.
func (w *worker) injected() bool {
	return w.pod.Annotations[statusAnnotation] != "" && w.role() == sidecar
}

// proxySpec is the proxy's container as the injection has made it.
func (w *worker) proxySpec() (corev1.Container, error) {
	for _, c := range slices.Concat(w.pod.Spec.InitContainers, w.pod.Spec.Containers) {
		if c.Name == proxyContainer {
			return c, nil
		}
	}
	return corev1.Container{}, errors.New("the Pod has no container " + proxyContainer)
}

// redirect sends the connections of the Pod to its proxy.
func (w *worker) redirect() error {
	if !w.injected() {
		return w.net.Redirect(slices.Contains(w.ownProxyEnv(), "ISTIO_META_DNS_CAPTURE=true"))
	}
	at := slices.IndexFunc(w.pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == initContainer })
	if at < 0 {
		return nil // it asks for none
	}
	c := w.pod.Spec.InitContainers[at]
	output, err := os.Create(filepath.Join(w.dir(), initContainer+".log"))
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	process, err := w.net.Start(podnet.Command{
		Args: podnet.InitArgs(w.k.o.Self, w.resolvConf(), podnet.User{}, append([]string{w.k.o.Agent}, c.Args...)),
		Env:  w.variables(c), Output: output,
	})
	if err == nil && !process.Succeeded() {
		text, _ := os.ReadFile(output.Name())
		err = fmt.Errorf("container %s: %s", initContainer, text)
	}
	return err
}

// proxyUser is who the agent runs as: root where the injection says so, with the proxy's group.
func (w *worker) proxyUser() podnet.User {
	user := podnet.Proxy()
	if !w.injected() {
		return user
	}
	if c, err := w.proxySpec(); err == nil && c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		user.UID = int(*c.SecurityContext.RunAsUser)
	}
	return user
}

// proxyCommand returns the arguments of the agent and its variables.
func (w *worker) proxyCommand() (args, env []string, err error) {
	if !w.injected() {
		kind := "sidecar"
		if w.role() == gateway {
			kind = "router"
		}
		env, err = w.proxyEnv()
		return []string{
			"proxy", kind, "--domain", w.namespace + ".svc.cluster.local", "--proxyLogLevel", "warning",
			"--proxyComponentLogLevel", "misc:error",
		}, env, err
	}
	c, err := w.proxySpec()
	if err != nil {
		return nil, nil, err
	}
	env = w.variables(c)
	var known []string
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		known = append(known, "$("+name+")", value)
	}
	for _, a := range c.Args {
		args = append(args, strings.NewReplacer(known...).Replace(a))
	}
	return args, append(env, "PATH="+os.Getenv("PATH")), nil
}

// variables are those of a container, with what a kubelet puts in.
func (w *worker) variables(c corev1.Container) (env []string) {
	for _, e := range c.Env {
		value := e.Value
		switch {
		case e.ValueFrom == nil:
		case e.ValueFrom.FieldRef != nil:
			value = w.field(e.ValueFrom.FieldRef.FieldPath)
		case e.ValueFrom.ResourceFieldRef != nil:
			// What has no limit may use the whole node.
			limits := corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}
			name, _ := strings.CutPrefix(e.ValueFrom.ResourceFieldRef.Resource, "limits.")
			limit := limits[corev1.ResourceName(name)]
			if own, ok := c.Resources.Limits[corev1.ResourceName(name)]; ok {
				limit = own
			}
			value = fmt.Sprint(limit.Value())
		}
		env = append(env, e.Name+"="+value)
	}
	return env
}

// mounts reports whether the proxy's container has a file, by its path without the first slash.
func (w *worker) mounts(name string) bool {
	c, err := w.proxySpec()
	return !w.injected() || err == nil && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return strings.HasPrefix("/"+name, strings.TrimSuffix(m.MountPath, "/")+"/")
	})
}
