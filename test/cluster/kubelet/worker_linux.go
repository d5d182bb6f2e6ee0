package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

// pollInterval is how often a worker looks at its processes: more often than a kubelet, so that
// tests wait less.
const pollInterval = 100 * time.Millisecond

// flush is how long the Envoy passes on what its workload said last.
const flush = 2 * time.Second

// worker runs one Pod.
type worker struct {
	k               *Kubelet
	node            *node
	uid             types.UID
	namespace, name string
	alive           context.Context // done when the Pod is killed, without its object being told
	kill            context.CancelFunc
	seen            chan *corev1.Pod // latest-value

	mu   sync.Mutex
	net  *podnet.Pod
	logs map[string]*containerLog // by the names of containers

	pod        *corev1.Pod
	started    metav1.Time
	containers []*container
	proxy      *podnet.Process
	memory     string // the volume in memory; empty without one
	mounted    string // the roots that were written last
	reported   string // what the API server was told last
	failed     int    // looks in a row that did not find the Pod ready
}

type container struct {
	corev1.Container
	process  *podnet.Process
	restarts int32
}

func newWorker(k *Kubelet, n *node, pod *corev1.Pod) *worker {
	w := &worker{
		k:         k,
		node:      n,
		uid:       pod.UID,
		namespace: pod.Namespace,
		name:      pod.Name,
		pod:       pod,
		seen:      make(chan *corev1.Pod, 1),
		logs:      map[string]*containerLog{},
		started:   metav1.Now(),
		failed:    failures, // none is ready before it was found so
	}
	w.alive, w.kill = context.WithCancel(n.lost)
	return w
}

// see replaces what the worker knows of its Pod.
func (w *worker) see(pod *corev1.Pod) {
	select {
	case <-w.seen:
	default:
	}
	w.seen <- pod
}

func (w *worker) place() *podnet.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.net
}

func (w *worker) run() {
	defer w.k.ended(w)
	defer w.kill()
	if err := w.start(); err != nil {
		w.k.o.Log.Error("a pod does not start", "pod", w.namespace+"/"+w.name, "error", err)
	} else {
		w.watch()
	}
	w.end()
}

// watch keeps the processes running and the status true until the Pod is to be deleted, or is
// killed.
func (w *worker) watch() {
	t := time.NewTicker(pollInterval)
	defer t.Stop()
	for w.pod.DeletionTimestamp == nil {
		w.restart()
		w.refreshRoots()
		w.report(w.isReady(w.alive))
		select {
		case <-w.alive.Done():
			return
		case w.pod = <-w.seen:
		case <-t.C:
		}
	}
	w.terminate()
	w.remove()
}

func (w *worker) start() error {
	pod, err := w.k.o.Network.AddPod()
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.net = pod
	w.mu.Unlock()
	if slices.ContainsFunc(w.sysctls(), func(s corev1.Sysctl) bool { return s.Name == lowPorts && s.Value == "0" }) {
		if err := pod.OpenLowPorts(); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(w.dir(), 0o755); err != nil {
		return err
	}
	resolv := fmt.Sprintf("nameserver %s\nsearch %s.svc.cluster.local svc.cluster.local cluster.local\n"+
		"options ndots:5\n", podnet.Gateway, w.namespace)
	if err := os.WriteFile(w.resolvConf(), []byte(resolv), 0o644); err != nil {
		return err
	}
	if w.role() == sidecar {
		if err := w.redirect(); err != nil {
			return err
		}
	}
	if w.role() != bare {
		if err := w.mount(); err != nil {
			return err
		}
		if err := w.startProxy(); err != nil {
			return err
		}
	}
	if w.role() == gateway {
		return nil
	}
	if err := w.mountVolumes(); err != nil {
		return err
	}
	for _, c := range w.pod.Spec.Containers {
		if c.Name == proxyContainer {
			continue
		}
		started := &container{Container: c}
		if err := w.startContainer(started); err != nil {
			return err
		}
		w.containers = append(w.containers, started)
	}
	return nil
}

func (w *worker) dir() string        { return filepath.Join(w.k.o.Dir, w.namespace+"_"+w.name) }
func (w *worker) resolvConf() string { return filepath.Join(w.dir(), "resolv.conf") }

// launchProxy runs the agent, with its output in a file.
func (w *worker) launchProxy(args, env []string) (*podnet.Process, error) {
	path := filepath.Join(w.dir(), proxyContainer+".log")
	output, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	if err := output.Chmod(0o666); err != nil { // a proxy opens /dev/stdout by itself
		return nil, err
	}
	return w.net.Start(podnet.Command{
		Args:   podnet.InitArgs(w.k.o.Self, w.resolvConf(), w.proxyUser(), args),
		Env:    env,
		Output: output,
	})
}

func (w *worker) startContainer(c *container) error {
	program, err := w.program(c)
	if err != nil {
		return err
	}
	files := w.files(c, program)
	args := slices.Clone(program.Args)
	for _, a := range c.Args {
		args = append(args, files.Replace(a))
	}
	output, err := w.log(c.Name).pipe()
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	c.process, err = w.net.Start(podnet.Command{
		Args:   podnet.InitArgs(w.k.o.Self, w.resolvConf(), podnet.User{}, args),
		Env:    w.env(c, files),
		Output: output,
	})
	return err
}

// restart starts containers that have ended, with the files that they had.
func (w *worker) restart() {
	for _, c := range w.containers {
		select {
		case <-c.process.Done():
			c.restarts++
			if err := w.startContainer(c); err != nil {
				w.k.o.Log.Error("a container does not start", "pod", w.namespace+"/"+w.name, "container", c.Name,
					"error", err)
			}
		default:
		}
	}
	if w.proxy == nil {
		return
	}
	select {
	case <-w.proxy.Done():
		if err := w.startProxy(); err != nil {
			w.k.o.Log.Error("a proxy does not start", "pod", w.namespace+"/"+w.name, "error", err)
		}
	default:
	}
}

// terminate lets the Pod end within its grace: what is told to callers first needs time to reach
// them, which a preStop sleep is for; then the containers end, and the Envoy after them.
func (w *worker) terminate() {
	grace := 30 * time.Second
	if s := w.pod.DeletionGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	ctx, cancel := context.WithTimeout(w.alive, grace)
	defer cancel()
	if w.proxy != nil {
		w.drainProxy(ctx)
	}
	var ends sync.WaitGroup
	for _, c := range w.containers {
		ends.Go(func() {
			if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && c.Lifecycle.PreStop.Sleep != nil {
				wait(ctx, time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second)
			}
			c.process.Stop(ctx, grace)
		})
	}
	ends.Wait()
	if w.proxy != nil {
		w.proxy.Stop(ctx, flush)
	}
}

// end takes away what is left of the Pod. Of one whose node is lost nobody hears anything more; the
// connections of others break.
func (w *worker) end() {
	if w.net == nil {
		return
	}
	if w.node.lost.Err() != nil {
		_ = w.net.Unplug() // it may never have been plugged in
	}
	for _, c := range w.containers {
		c.process.Kill()
	}
	if w.proxy != nil {
		w.proxy.Kill()
	}
	_ = w.net.Unplug()
	w.net.Close()
	if w.memory != "" {
		_ = os.RemoveAll(w.memory) // the next start of the machine does
	}
}

// remove deletes the object of a Pod that has ended, as soon as the API server lets it.
func (w *worker) remove() {
	now, t := int64(0), time.NewTicker(time.Second)
	defer t.Stop()
	for {
		err := w.k.o.Client.CoreV1().Pods(w.namespace).Delete(w.alive, w.name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &w.uid},
		})
		if !passes(err) {
			return
		}
		select {
		case <-w.alive.Done():
			return
		case <-t.C:
		}
	}
}

// passes tells whether an error may be another's fault, and go away.
func passes(err error) bool {
	return err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !errors.Is(err, context.Canceled)
}

func wait(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// role is what a Pod's Envoy is.
type role uint8

const (
	sidecar role = iota
	gateway
	bare
)

func (w *worker) role() role {
	const inject, templates = "sidecar.istio.io/inject", "inject.istio.io/templates"
	if w.pod.Annotations[templates] == "gateway" {
		return gateway
	}
	said := []string{w.pod.Labels[inject], w.pod.Annotations[inject]}
	without := w.k.o.NoSidecars != nil && w.k.o.NoSidecars(w.namespace)
	if slices.Contains(said, "false") || without && !slices.Contains(said, "true") {
		return bare
	}
	return sidecar
}
