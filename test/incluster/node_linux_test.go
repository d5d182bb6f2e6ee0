package incluster

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// playedNode is a node that runs nothing: it says of each Pod that it runs and is ready, and ends
// those that are to end. Pods of control planes have addresses of this machine, at which a process
// may answer in their place.
type playedNode struct {
	c   *cluster
	ctx context.Context //nolint:containedctx // of the goroutine

	mu sync.Mutex
	// planes are the processes of control planes, by revision.
	planes map[string]plane
	others int // Pods that have an address
}

// plane is where the control plane of a revision answers.
type plane struct {
	address    string // of its Pods
	monitoring string
}

// playNode plays until the test ends. The API server must have the flag aggregatorRouting.
func (c *cluster) playNode(t *testing.T) *playedNode {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &playedNode{c: c, ctx: ctx, planes: map[string]plane{}}
	c.node(t, forwardingKubelet(t, n.forward))
	var running sync.WaitGroup
	t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(n.run)
	return n
}

// aggregatorRouting has the API server call webhooks at the addresses of Pods, as nothing carries
// traffic to Services here.
const aggregatorRouting = "--enable-aggregator-routing=true"

func (n *playedNode) run() {
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		pods, err := n.c.client.CoreV1().Pods("").List(n.ctx, metav1.ListOptions{})
		for i := 0; err == nil && i < len(pods.Items); i++ {
			n.play(&pods.Items[i]) // what fails is tried next time
		}
		select {
		case <-n.ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
	}
}

// play does the next step of a Pod.
func (n *playedNode) play(p *corev1.Pod) {
	pods := n.c.client.CoreV1().Pods(p.Namespace)
	switch {
	case p.DeletionTimestamp != nil:
		now := int64(0)
		_ = pods.Delete(n.ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	case p.Spec.NodeName == "":
		_ = pods.Bind(n.ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "node-1"},
		}, metav1.CreateOptions{})
	case p.Status.Phase != corev1.PodRunning:
		address := n.addressOf(p)
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, _ = pods.UpdateStatus(n.ctx, p, metav1.UpdateOptions{})
	}
}

// addressOf returns the address of the control plane of a Pod, or one that nobody has.
func (n *playedNode) addressOf(p *corev1.Pod) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.Labels["app"] == "istiod" {
		return n.plane(p.Labels["istio.io/rev"]).address
	}
	n.others++
	return fmt.Sprintf("10.9.%d.%d", n.others/250, 1+n.others%250)
}

// plane returns that of a revision, which need not answer yet.
func (n *playedNode) plane(revision string) plane {
	known, ok := n.planes[revision]
	if !ok {
		known.address = fmt.Sprintf("198.18.21.%d", len(n.planes)+1) // of the block for benchmarks
		n.planes[revision] = known
	}
	return known
}

// forward tells where a port of a Pod is, of "namespace/pod:port". Pods of control planes alone
// have some.
func (n *playedNode) forward(port string) string {
	namespace, rest, _ := strings.Cut(port, "/")
	name, _, _ := strings.Cut(rest, ":")
	p, err := n.c.client.CoreV1().Pods(namespace).Get(n.ctx, name, metav1.GetOptions{})
	if err != nil || p.Labels["app"] != "istiod" {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.planes[p.Labels["istio.io/rev"]].monitoring
}

// serve runs the control plane of a revision where its Pods are said to be, with its own rights.
func (n *playedNode) serve(t *testing.T, revision, account string, flags ...string) *replica {
	t.Helper()
	address := n.own(t, revision)
	r := n.c.startAs(t, account, append(flags, "--revision="+revision,
		"--webhook-address="+address+":15017", "--secure-xds-address="+address+":15012")...)
	n.mu.Lock()
	n.planes[revision] = plane{address, fmt.Sprint("127.0.0.1:", r.port(t, "monitoring"))}
	n.mu.Unlock()
	r.ready(t)
	r.leads(t)
	return r
}

// own gives this machine the address of a control plane's Pods until the test ends.
func (n *playedNode) own(t *testing.T, revision string) string {
	t.Helper()
	n.mu.Lock()
	address := n.plane(revision).address
	n.mu.Unlock()
	loopback, err := netlink.LinkByName("lo")
	require.NoError(t, err)
	parsed, err := netlink.ParseAddr(netip.PrefixFrom(netip.MustParseAddr(address), 32).String())
	require.NoError(t, err)
	require.NoError(t, netlink.AddrReplace(loopback, parsed))
	t.Cleanup(func() { _ = netlink.AddrDel(loopback, parsed) })
	return address
}

// asRoot skips a test that gives this machine addresses.
func asRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("gives this machine addresses, as root")
	}
}
