package kubelet

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

// Options say where Pods run.
type Options struct {
	Client  kubernetes.Interface
	Network *podnet.Network
	// Self is the test binary, which podnet.Init and the sample program are started from.
	Self string
	// Agent and Envoy are binaries.
	Agent, Envoy string
	// Discovery is where the agents find the control plane over TLS, and ServerName what its
	// certificate is for.
	Discovery  netip.AddrPort
	ServerName string
	// Dir is for files of pods: logs, resolv.conf, what containers mount. All users can read it.
	Dir   string
	Nodes []string
	// Port is where Handler is served over TLS, at podnet.Gateway; zero for nowhere.
	Port int32
	// Programs are what containers run, by the names of their images without a tag; beside the
	// sample program.
	Programs map[string]Program
	// NoSidecars reports whether Pods of a namespace get none unless they ask for it; nil for
	// nowhere.
	NoSidecars func(namespace string) bool
	Log        *slog.Logger
}

// Program is what a container of an image runs.
type Program struct {
	// Args are the command, before the arguments of the container. A container may name another
	// command of its image in Execute.
	Args []string
	// Files are those of the image that arguments may name: where they are, by their paths.
	Files map[string]string
	// Commands are further programs of the image, by their names.
	Commands map[string]string
}

// Kubelet runs Pods. It is safe for concurrent use.
type Kubelet struct {
	o    Options
	pods cache.SharedIndexInformer
	maps listers.ConfigMapLister

	mu      sync.Mutex
	ctx     context.Context
	workers map[types.UID]*worker
	crashed map[types.UID]bool
	nodes   map[string]*node
	turn    int
	running sync.WaitGroup
}

// New makes a kubelet on a factory that is not started yet.
func New(o Options, f informers.SharedInformerFactory) *Kubelet {
	return &Kubelet{
		o:       o,
		pods:    f.Core().V1().Pods().Informer(),
		maps:    f.Core().V1().ConfigMaps().Lister(),
		workers: map[types.UID]*worker{},
		crashed: map[types.UID]bool{},
		nodes:   map[string]*node{},
	}
}

// Run works until the context ends; then it kills what runs, and tells nobody.
func (k *Kubelet) Run(ctx context.Context) error {
	k.mu.Lock()
	k.ctx = ctx
	k.mu.Unlock()
	for _, name := range k.o.Nodes {
		if err := k.register(ctx, name); err != nil {
			return err
		}
	}
	registered, err := k.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { k.observe(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { k.observe(o.(*corev1.Pod)) },
		DeleteFunc: k.forget,
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	_ = k.pods.RemoveEventHandler(registered)
	k.running.Wait()
	return nil
}

// observe binds a Pod to a node, or gives it to its worker.
func (k *Kubelet) observe(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	w := k.workers[pod.UID]
	switch node := k.nodes[pod.Spec.NodeName]; {
	case w != nil:
		w.see(pod)
	case pod.Spec.NodeName == "":
		if to := k.pick(pod); to != "" {
			k.running.Go(func() { k.bind(pod, to) })
		}
	case node == nil || node.lost.Err() != nil || k.crashed[pod.UID]: // not ours, or not there any more
	default:
		w := newWorker(k, node, pod)
		k.workers[pod.UID] = w
		k.running.Go(w.run)
	}
}

// pick takes turns among the nodes that are up and that the Pod selects by their name.
func (k *Kubelet) pick(pod *corev1.Pod) string {
	for range k.o.Nodes {
		k.turn++
		name := k.o.Nodes[k.turn%len(k.o.Nodes)]
		wanted := pod.Spec.NodeSelector[corev1.LabelHostname]
		if k.nodes[name].lost.Err() == nil && (wanted == "" || wanted == name) {
			return name
		}
	}
	return ""
}

// bind tries until it is done or the Pod has gone: while the API server is away nobody else would.
func (k *Kubelet) bind(pod *corev1.Pod, node string) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		err := k.o.Client.CoreV1().Pods(pod.Namespace).Bind(k.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
			Target:     corev1.ObjectReference{Kind: "Node", Name: node},
		}, metav1.CreateOptions{})
		if !passes(err) {
			return
		}
		select {
		case <-k.ctx.Done():
			return
		case <-t.C:
		}
	}
}

// forget ends a Pod whose object has gone without it, by force.
func (k *Kubelet) forget(o any) {
	if gone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = gone.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.workers[pod.UID]; w != nil {
		w.kill()
	}
}

func (k *Kubelet) ended(w *worker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.workers, w.uid)
}

// Pod is the network namespace of a running Pod, nil if there is none.
func (k *Kubelet) Pod(namespace, name string) *podnet.Pod {
	if w := k.worker(namespace, name); w != nil {
		return w.place()
	}
	return nil
}

// worker returns the one of a Pod, nil if there is none.
func (k *Kubelet) worker(namespace, name string) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		if w.namespace == namespace && w.name == name {
			return w
		}
	}
	return nil
}

// Crash kills a Pod's processes and takes it off the network, as if it had never been: the API
// server is told nothing.
func (k *Kubelet) Crash(namespace, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		if w.namespace == namespace && w.name == name {
			k.crashed[w.uid] = true
			w.kill()
		}
	}
}
