package local

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

const (
	// AppAddress and OutboundAddress are annotations of a pod: the address of its process, and the
	// one at which its Envoy takes the process's own calls.
	AppAddress      = "lateen.io/app-address"
	OutboundAddress = "lateen.io/outbound-address"

	// revisionLabel distinguishes the pods of one roll-out from those of another, as in a cluster.
	revisionLabel = "pod-template-hash"
	nodeName      = "local"
	hostIP        = "127.0.0.1"
	// defaultGrace is Kubernetes' terminationGracePeriodSeconds.
	defaultGrace = 30 * time.Second
)

// pod is the loop's record of one pod.
type pod struct {
	owner   source.Key
	object  *corev1.Pod // without status; addresses are added when the pod starts
	role    podRole
	hash    string
	ordinal int
	created time.Time

	addrs   addresses
	started bool   // it has addresses, and a worker that runs it
	blocked string // why it has not started
	worker  *worker
	token   string

	containers  []*container
	ports       map[int32]*port // that services want open, by number
	readySince  time.Time       // zero while not ready
	served      bool            // it was ready once, so others may call it
	terminating *metav1.Time
	ended       bool
	metrics     *metered // nil unless its Envoy keeps Istio's metrics
}

// container is the state of one of a pod's processes.
type container struct {
	name     string
	pid      int // 0: not running
	restarts int
	ready    bool
	finished bool
	failed   bool
	reason   string // reason it is not ready
}

// port is a port at which the pod's Envoy should listen.
type port struct {
	wanted time.Time // since when
	open   bool      // it was seen to listen, by the Envoy that runs now
}

// newPod returns the record of a pod that an owner wants.
func newPod(o owner, ordinal int, namespace *corev1.Namespace, now time.Time) *pod {
	object := &corev1.Pod{ObjectMeta: *o.meta.DeepCopy(), Spec: *o.spec.DeepCopy()}
	object.Namespace = o.key.Namespace
	o.identify(object, ordinal)
	object.UID = types.UID(safeHash(32, object.Namespace, object.Name, now.Format(time.RFC3339Nano)))
	object.CreationTimestamp = metav1.NewTime(now)
	object.Spec.NodeName = cmp.Or(object.Spec.NodeName, nodeName)
	if object.Spec.ServiceAccountName == "" {
		object.Spec.ServiceAccountName = "default"
	}
	return &pod{
		owner: o.key, object: object, role: roleOf(object, namespace), hash: o.hash, ordinal: ordinal, created: now,
		ports: map[int32]*port{},
	}
}

func setKey(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

// assign sets the pod's addresses. Without a sidecar the process listens at the pod's address.
func (p *pod) assign(a addresses) {
	if p.role == roleBare {
		a.App = a.Pod
	}
	p.addrs = a
	setKey(&p.object.Annotations, AppAddress, a.App.String())
	setKey(&p.object.Annotations, OutboundAddress, a.Outbound.String())
}

func (p *pod) key() source.Key {
	return source.Key{Kind: kinds.Pod, Namespace: p.object.Namespace, Name: p.object.Name}
}

func (p *pod) name() string { return p.object.Namespace + "/" + p.object.Name }

// graceWithin returns the pod's terminationGracePeriodSeconds, or the limit if that is less.
func (p *pod) graceWithin(limit time.Duration) time.Duration {
	grace := defaultGrace
	if s := p.object.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	return max(0, min(grace, limit))
}

func (p *pod) container(name string) *container {
	for _, c := range p.containers {
		if c.name == name {
			return c
		}
	}
	return nil
}

// isReady reports whether all processes, Envoy among them, are ready.
func (p *pod) isReady() bool {
	return p.started && len(p.containers) > 0 && !slices.ContainsFunc(p.containers, func(c *container) bool {
		return !c.ready
	})
}

// want records the ports that services use.
func (p *pod) want(ports []int32, now time.Time) {
	for _, n := range ports {
		if p.ports[n] == nil {
			p.ports[n] = &port{wanted: now}
		}
	}
}

// notYetOpen returns the wanted ports at which the pod's Envoy has not been seen to listen.
func (p *pod) notYetOpen(wanted []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(wanted), func(n int32) bool { return p.ports[n] != nil && p.ports[n].open })
}

// closedPorts returns the wanted ports at which Envoy does not listen yet, and when to stop waiting
// for them. After that time the endpoint is announced all the same, so that a port which Envoy
// never opens becomes an error that callers see. One open port is enough for a gateway: which ports
// of its Service it opens depends on Gateways.
func (p *pod) closedPorts(wanted []int32, wait time.Duration, now time.Time) (closed []int32, until time.Time) {
	if p.role == roleBare || p.readySince.IsZero() {
		return nil, time.Time{}
	}
	for _, n := range wanted {
		port := p.ports[n]
		if port == nil {
			continue
		}
		if port.open && p.role == roleGateway {
			return nil, time.Time{}
		}
		deadline := port.wanted
		if p.readySince.After(deadline) {
			deadline = p.readySince
		}
		if deadline = deadline.Add(wait); port.open || !now.Before(deadline) {
			continue
		}
		closed = append(closed, n)
		if until.IsZero() || deadline.Before(until) {
			until = deadline
		}
	}
	return closed, until
}

// handleReport updates the pod by a report of its worker. tell is set if people should see the
// notice.
func (p *pod) handleReport(r report) (n Notice, tell bool) {
	n = Notice{Pod: p.name(), Container: r.container, Text: r.text, Tail: r.tail}
	switch c := p.container(r.container); {
	case r.kind == portOpen:
		if port := p.ports[r.port]; port != nil && p.container(proxyContainer).pid != 0 { // else it has gone meanwhile
			port.open = true
		}
	case r.kind == podEnded:
		p.ended = true
		n.Text, tell = "stopped", true
	case c != nil:
		tell, n.Bad = c.handleReport(r)
		if c.name == proxyContainer && c.pid == 0 {
			for _, port := range p.ports {
				port.open = false // the next Envoy opens them anew
			}
		}
	}
	return n, tell
}

// handleReport updates the container by a report of its supervisor. tell is set if people should be
// told, bad if it is a failure.
func (c *container) handleReport(r report) (tell, bad bool) {
	switch r.kind {
	case processStarted:
		c.pid, c.reason = r.pid, "starting"
	case processReady:
		c.ready, c.reason = true, ""
	case processUnready:
		c.ready, c.reason = false, r.text
	case processCrashed:
		c.ready, c.pid, c.reason = false, 0, r.text
		c.restarts++
		return true, true
	case processFinished:
		c.ready, c.pid, c.reason, c.finished, c.failed = false, 0, r.text, true, r.failed
		return true, r.failed
	}
	return false, false
}

// reason returns why a pod is not ready, for people; empty if it is ready.
func (p *pod) reason(closed []int32) string {
	if len(closed) > 0 {
		return fmt.Sprintf("its Envoy does not listen at %s yet", netip.AddrPortFrom(p.addrs.Pod, uint16(closed[0])))
	}
	if p.blocked != "" {
		return p.blocked
	}
	for _, c := range p.containers {
		if !c.ready && c.reason != "" {
			return fmt.Sprintf("%s: %s", c.name, c.reason)
		}
	}
	return ""
}
