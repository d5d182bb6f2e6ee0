package incluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
)

// claimedWindow is how many seconds a replica has run, as its metrics say through claims.
const claimedWindow = 1000.0

// claims are samples of metrics that are served in place of a replica's own: how busy it is, which
// no test can bring about on a machine that has other work.
type claims struct {
	mu      sync.Mutex
	samples map[string]float64
}

// use claims that a share of all CPUs is used, mostly by pushes.
func (c *claims) use(r *replica, cpu float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.samples = map[string]float64{
		"process_start_time_seconds":         float64(time.Now().Unix()) - claimedWindow,
		"process_cpu_seconds_total":          claimedWindow * cpu * r.metric("go_sched_gomaxprocs_threads"),
		"pilot_pushcontext_init_seconds_sum": claimedWindow * 0.1,
		"lateen_push_busy_seconds_total":     claimedWindow * 2 * cpu,
	}
}

// serve serves the monitoring port of a replica with these samples. It returns the address.
func (c *claims) serve(t *testing.T, r *replica) string {
	t.Helper()
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: fmt.Sprintf("127.0.0.1:%d", r.port(t, "monitoring"))})
			p.Out.Header.Del("Accept-Encoding")
			p.Out.Header.Del("Accept") // text, not protobuf
		},
		ModifyResponse: func(answer *http.Response) error {
			if answer.Request.URL.Path != "/metrics" {
				return nil
			}
			body, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(c.replace(body))), -1
			answer.Header.Del("Content-Length")
			return err
		},
	})
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func (c *claims) replace(body []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out bytes.Buffer
	for line := range strings.Lines(string(body)) {
		name, _, _ := strings.Cut(line, " ")
		if value, claimed := c.samples[name]; claimed {
			line = fmt.Sprintf("%s %g\n", name, value)
		}
		out.WriteString(line)
	}
	return out.Bytes()
}

// runReplicas says of the Pods of the control plane what a scheduler and a kubelet would say, until
// the test ends.
func (c *cluster) runReplicas(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-done
	})
	pods := c.client.CoreV1().Pods(root)
	run := func(p *corev1.Pod) { // what fails is done the next time
		now := int64(0)
		switch {
		case p.DeletionTimestamp != nil:
			_ = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
		case p.Spec.NodeName == "":
			_ = pods.Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: p.Name},
				Target:     corev1.ObjectReference{Kind: "Node", Name: "node-1"},
			}, metav1.CreateOptions{})
		case p.Status.Phase != corev1.PodRunning:
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			_, _ = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		}
	}
	go func() {
		defer close(done)
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			all, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "app=istiod"})
			for i := 0; err == nil && i < len(all.Items); i++ {
				run(&all.Items[i])
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
}

// advice is what lateen advise says by some rules, about all replicas, as soon as all can be asked.
func (c *cluster) advice(t *testing.T, rules ...string) []advise.Finding {
	t.Helper()
	var report advise.Report
	eventually(t, func(ct require.TestingT) {
		report = advise.Report{}
		out, code := c.tool(t, "advise", "--namespace", root, "--since-start", "--proxies", "0", "-o", "json")
		require.Contains(ct, []int{0, 3}, code, out)
		require.NoError(ct, json.Unmarshal([]byte(out), &report), out)
	})
	return slices.DeleteFunc(report.Findings, func(f advise.Finding) bool { return !slices.Contains(rules, f.Rule) })
}

// numReplicas waits until the Deployment asks for so many replicas, all are ready, and the
// autoscaler has seen them.
func (c *cluster) numReplicas(t *testing.T, want float64) {
	t.Helper()
	number := func(ct require.TestingT, kind string, path ...string) int64 {
		n, _, err := unstructured.NestedInt64(c.get(ct, kind, root, "istiod").Object, path...)
		require.NoError(ct, err)
		return n
	}
	eventually(t, func(ct require.TestingT) {
		require.InDelta(ct, want, number(ct, "Deployment", "spec", "replicas"), 0.1)
		require.InDelta(ct, want, number(ct, "Deployment", "status", "readyReplicas"), 0.1)
		require.InDelta(ct, want, number(ct, "HorizontalPodAutoscaler", "status", "currentReplicas"), 0.1)
	})
}

// TestAdviseAutoscaler: the bounds of the installed HorizontalPodAutoscaler leave one replica, and
// then no more than two while pushes fill the CPUs. With the values that are advised, what the
// chart makes of them holds the Deployment within the promised bounds: Kubernetes' own controller
// does that without metrics, which nobody serves here.
func TestAdviseAutoscaler(t *testing.T) {
	c := startClusterWith(t, kubeapi.Options{ControllerManagerFlags: []string{
		"--controllers=horizontal-pod-autoscaler-controller", "--horizontal-pod-autoscaler-sync-period=1s",
	}})
	c.api.InstallIstioCRDs(t)
	c.applyManifests(t, "--set", "pilot.autoscaleMin=1", "--set", "pilot.autoscaleMax=2")
	r, says := c.start(t), &claims{}
	r.ready(t)
	says.use(r, 0.1)
	address := says.serve(t, r)
	c.node(t, forwardingKubelet(t, func(string) string { return address }))
	c.runReplicas(t)
	c.numReplicas(t, 1)

	found := c.advice(t, "autoscaler")
	require.Len(t, found, 1, "%+v", found)
	require.Equal(t, advise.Effect{What: "replicas at least", Before: 1, After: 2}, found[0].Effects[0])
	require.Equal(t, map[string]string{"pilot.autoscaleMin": "2"}, found[0].Remedy.Values)
	c.applyManifests(t, "--set", "pilot.autoscaleMin=2", "--set", "pilot.autoscaleMax=2")
	c.numReplicas(t, found[0].Effects[0].After)
	require.Empty(t, c.advice(t, "autoscaler"))

	says.use(r, 1)
	found = c.advice(t, "scale-out", "autoscaler")
	require.Len(t, found, 2, "%+v", found)
	replicas, most := found[0].Effects[0], found[1].Effects[0]
	require.Equal(t, advise.Effect{What: "replicas", Before: 2, After: 4}, replicas)
	require.Equal(t, advise.Effect{What: "replicas at most", Before: 2, After: 8}, most)
	scale := func(n float64) {
		c.patch(t, "Deployment", root, "istiod", fmt.Sprintf(`{"spec": {"replicas": %.0f}}`, n))
	}
	scale(most.After)
	c.numReplicas(t, most.Before) // no more than these
	var flags []string
	for _, f := range found {
		for name, value := range f.Remedy.Values {
			flags = append(flags, "--set", name+"="+value)
		}
	}
	c.applyManifests(t, flags...)
	c.numReplicas(t, replicas.After)
	scale(most.After)
	c.numReplicas(t, most.After)
	scale(most.After + 1)
	c.numReplicas(t, most.After)
	says.use(r, replicas.Before/replicas.After)
	require.Empty(t, c.advice(t, "scale-out", "autoscaler"))
}
