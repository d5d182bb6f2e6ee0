package local

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// Snapshot is the state of everything that the runtime runs at one moment. It does not change.
type Snapshot struct {
	// Synced is set once the source has delivered its initial state.
	Synced bool
	// Pods are in the order of namespace and name.
	Pods []PodStatus
	// LoadBalancers are the addresses at which the mesh is reached from outside.
	LoadBalancers []LoadBalancer
	// ClosedPorts are the ports of such Services that cannot be opened, most often because another
	// program has them.
	ClosedPorts []source.Problem
	// ControlPlane is the process of the control plane; nil if it has none of its own.
	ControlPlane *ProcessStatus
}

// Ready reports whether every pod is ready, except those that terminate or have ended for good.
func (s *Snapshot) Ready() bool {
	return s.Synced && !slices.ContainsFunc(s.Pods, func(p PodStatus) bool {
		return !p.Ready && p.State != Terminating && !p.State.ended()
	})
}

// proxies returns the ready Envoys, as control planes name them ("pod.namespace").
func (s *Snapshot) proxies() (names []string) {
	for _, p := range s.Pods {
		for _, c := range p.Processes {
			if c.Name == proxyContainer && c.Ready {
				names = append(names, p.Name+"."+p.Namespace)
			}
		}
	}
	return names
}

// PodState is one word on where a pod stands.
type PodState string

// The states of a pod, named as kubectl or Kubernetes' phases name them.
const (
	Pending     PodState = "Pending"     // not started; Why says what is missing
	Starting    PodState = "Starting"    // it runs and is not ready
	Running     PodState = "Running"     // it runs and is ready
	Crashing    PodState = "Crashing"    // a process ended, and starts again in a while
	Terminating PodState = "Terminating" // it serves until nobody calls it any more
	Completed   PodState = "Completed"   // its processes ended, and its restart policy lets them
	Failed      PodState = "Failed"      // the same, and one of them with an error
)

// ended reports whether a pod's processes have ended for good.
func (s PodState) ended() bool { return s == Completed || s == Failed }

// PodStatus is the state of one pod, for people.
type PodStatus struct {
	Namespace, Name string
	// Workload is the Deployment's name, or the pod's own; Revision tells the pods of one roll-out
	// from another's.
	Workload, Revision string
	Gateway            bool
	State              PodState
	// Ready is set if its processes are ready and its Envoy listens where services expect it.
	Ready bool
	// Why says what is missing while the pod is not ready.
	Why string
	// Pod, App and Outbound are the addresses; invalid while the pod is Pending.
	Pod, App, Outbound netip.Addr
	// Peer is the pod's workload, and Principal its identity in mutual TLS, as Istio's metrics call
	// them; empty unless Options.Metrics is set.
	Peer      proxystats.Workload
	Principal string
	Restarts  int
	Since     time.Time
	Processes []ProcessStatus
}

// ProcessStatus is one process of a pod; Envoy's name is istio-proxy.
type ProcessStatus struct {
	Name     string
	PID      int // 0: not running
	Restarts int
	Ready    bool
	Log      string // path
}

// LoadBalancer is an open port of a Service of type LoadBalancer.
type LoadBalancer struct {
	Namespace, Service string
	Port               string // the port's name
	// Address is where it listens, on 127.0.0.1.
	Address netip.AddrPort
	HTTP    bool
}

// URL returns the URL to open in a browser.
func (e LoadBalancer) URL() string { return "http://" + e.Address.String() }

// String returns where it listens, and for which Service.
func (e LoadBalancer) String() string {
	at := e.Address.String()
	if e.HTTP {
		at = e.URL()
	}
	return "gateway " + at + " (" + e.Namespace + "/" + e.Service + ")"
}

func (p *pod) state() PodState {
	has := func(f func(*container) bool) bool { return slices.ContainsFunc(p.containers, f) }
	switch {
	case p.terminating != nil:
		return Terminating
	case !p.started:
		return Pending
	case p.isReady():
		return Running
	case p.completed() && p.failed():
		return Failed
	case p.completed():
		return Completed
	case has(func(c *container) bool { return c.finished || c.pid == 0 && c.restarts > 0 }):
		return Crashing
	default:
		return Starting
	}
}

// completed reports whether all processes but the Envoy have ended for good.
func (p *pod) completed() bool {
	apps := 0
	for _, c := range p.containers {
		if c.name == proxyContainer {
			continue
		}
		if apps++; !c.finished {
			return false
		}
	}
	return apps > 0
}

// failed reports whether a process ended for good with an error.
func (p *pod) failed() bool {
	return slices.ContainsFunc(p.containers, func(c *container) bool { return c.failed })
}

func (p *pod) status(closed []int32) PodStatus {
	s := PodStatus{
		Namespace: p.object.Namespace,
		Name:      p.object.Name,
		Workload:  p.owner.Name,
		Revision:  p.hash,
		Gateway:   p.role == roleGateway,
		State:     p.state(),
		Ready:     p.isReady() && len(closed) == 0,
		Why:       p.reason(closed),
		Since:     p.created,
		Pod:       p.addrs.Pod,
		App:       p.addrs.App,
		Outbound:  p.addrs.Outbound,
	}
	if p.metrics != nil {
		s.Peer, s.Principal = p.metrics.workload, p.metrics.principal
	}
	for _, c := range p.containers {
		s.Restarts += c.restarts
		ps := ProcessStatus{Name: c.name, PID: c.pid, Restarts: c.restarts, Ready: c.ready}
		if p.worker != nil {
			ps.Log = p.worker.logPath(c.name)
		}
		s.Processes = append(s.Processes, ps)
	}
	return s
}

// published returns the Pod as an API server would have it now.
func (p *pod) published() *corev1.Pod {
	out := p.object.DeepCopy()
	out.DeletionTimestamp = p.terminating
	out.Status = corev1.PodStatus{Phase: p.phase(), HostIP: hostIP}
	if p.started {
		out.Status.PodIP = p.addrs.Pod.String()
		out.Status.PodIPs = []corev1.PodIP{{IP: out.Status.PodIP}}
	}
	ready := p.isReady()
	out.Status.Conditions = []corev1.PodCondition{
		p.condition(corev1.PodScheduled, p.started),
		p.condition(corev1.ContainersReady, ready),
		p.condition(corev1.PodReady, ready),
	}
	for _, c := range p.containers {
		running := c.pid != 0
		out.Status.ContainerStatuses = append(out.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.name, Ready: c.ready, RestartCount: int32(c.restarts), Started: &running,
		})
	}
	return out
}

func (p *pod) condition(t corev1.PodConditionType, is bool) corev1.PodCondition {
	c := corev1.PodCondition{Type: t, Status: corev1.ConditionFalse}
	if is {
		c.Status = corev1.ConditionTrue
		c.LastTransitionTime = metav1.NewTime(p.readySince)
	}
	return c
}

func (p *pod) phase() corev1.PodPhase {
	switch {
	case !p.started:
		return corev1.PodPending
	case !p.completed():
		return corev1.PodRunning
	case p.failed():
		return corev1.PodFailed
	default:
		return corev1.PodSucceeded
	}
}
