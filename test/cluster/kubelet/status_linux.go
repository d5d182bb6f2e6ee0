package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lateen-mesh/lateen/test/cluster/podnet"
)

const (
	// probeTimeout is that of a probe that does not say.
	probeTimeout = time.Second
	// failures is how many looks in a row must fail until a Pod that was ready is not, Kubernetes'
	// failureThreshold: one probe may come too late on a busy machine.
	failures = 3
)

// isReady tells whether the Pod is, now or a few looks ago.
func (w *worker) isReady(ctx context.Context) bool {
	if w.looksReady(ctx) {
		w.failed = 0
		return true
	}
	w.failed = min(w.failed+1, failures)
	return w.failed < failures
}

// looksReady tells whether the Envoy and each container are.
func (w *worker) looksReady(ctx context.Context) bool {
	if w.proxy != nil && !w.proxyReady(ctx) {
		return false
	}
	for _, c := range w.containers {
		if !w.probe(ctx, c) {
			return false
		}
	}
	return true
}

// probe asks a container from the node whether it is ready, as a kubelet does. Beside a sidecar it
// asks from inside of the Pod, because a kubelet has no certificate. Where the injection has made
// the sidecar, it has sent the probes to the agent.
func (w *worker) probe(ctx context.Context, c *container) bool {
	p := c.ReadinessProbe
	if p == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, max(probeTimeout, time.Duration(p.TimeoutSeconds)*time.Second))
	defer cancel()
	dial, host := w.k.o.Network.Dial, w.net.Addr
	if w.role() == sidecar && !w.injected() {
		dial, host = w.net.Dial, netip.MustParseAddr("127.0.0.1")
	}
	switch {
	case p.HTTPGet != nil:
		return get(ctx, dial, "http://"+at(c, host, p.HTTPGet.Port)+p.HTTPGet.Path)
	case p.TCPSocket != nil:
		conn, err := dial(ctx, "tcp", at(c, host, p.TCPSocket.Port))
		if err != nil {
			return false
		}
		_ = conn.Close()
	}
	return true
}

// at is a port of a container, which may have a name.
func at(c *container, host netip.Addr, port intstr.IntOrString) string {
	number := uint16(port.IntVal)
	for _, p := range c.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			number = uint16(p.ContainerPort)
		}
	}
	return netip.AddrPortFrom(host, number).String()
}

// get tells whether a URL is answered well.
func get(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error), url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode < http.StatusBadRequest
}

// report tells the API server how the Pod is, if that is news. When it fails, the next look tries
// again.
func (w *worker) report(ready bool) {
	status := w.status(ready)
	news := fmt.Sprint(ready, status.ContainerStatuses)
	if news == w.reported || w.alive.Err() != nil {
		return
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(w.alive, 5*time.Second)
	defer cancel()
	if _, err := w.k.o.Client.CoreV1().Pods(w.namespace).Patch(ctx, w.name, types.MergePatchType, patch,
		metav1.PatchOptions{}, "status"); err == nil {
		w.reported = news
	}
}

func (w *worker) status(ready bool) corev1.PodStatus {
	is := corev1.ConditionFalse
	if ready {
		is = corev1.ConditionTrue
	}
	s := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &w.started,
		HostIP: podnet.Gateway.String(), HostIPs: []corev1.HostIP{{IP: podnet.Gateway.String()}},
		PodIP: w.net.Addr.String(), PodIPs: []corev1.PodIP{{IP: w.net.Addr.String()}},
	}
	for kind, status := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodScheduled:    corev1.ConditionTrue,
		corev1.PodInitialized:  corev1.ConditionTrue,
		corev1.ContainersReady: is,
		corev1.PodReady:        is,
	} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{
			Type:               kind,
			Status:             status,
			LastTransitionTime: metav1.Now(),
		})
	}
	for _, c := range w.containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: ready, Started: &ready, RestartCount: c.restarts,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: w.started}},
		})
	}
	return s
}
