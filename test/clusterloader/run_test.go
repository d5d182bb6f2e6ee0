package clusterloader

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lateen-mesh/lateen/internal/testkit/kubeapi"
	"github.com/lateen-mesh/lateen/internal/testkit/tool"
)

// program is that of $LATEEN_CLUSTERLOADER2, or .tools/clusterloader2. Its module cannot be
// installed by its path, so no target builds it.
func program(t *testing.T) string {
	t.Helper()
	path, err := tool.Find("clusterloader2")
	require.NoError(t, err)
	if path == "" {
		t.Skip("there is no ClusterLoader2: neither $LATEEN_CLUSTERLOADER2 nor .tools/clusterloader2 " +
			"(in a checkout of kubernetes/perf-tests: cd clusterloader2 && go build -o FILE ./cmd)")
	}
	return path
}

// kubelet says of Pods what a kubelet would say, and keeps how many of them the Deployments have
// asked for together, one value after the other.
type kubelet struct {
	client *kubernetes.Clientset

	mu    sync.Mutex
	asked []int
}

// run runs until the context ends.
func (k *kubelet) run(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		k.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look does what it can; the rest is done the next time.
func (k *kubelet) look(ctx context.Context) {
	list := metav1.ListOptions{LabelSelector: "group=sidecars"}
	deployments, err := k.client.AppsV1().Deployments("").List(ctx, list)
	if err != nil {
		return
	}
	pods, err := k.client.CoreV1().Pods("").List(ctx, list)
	if err != nil {
		return
	}
	sum := 0
	for _, d := range deployments.Items {
		sum += int(*d.Spec.Replicas)
	}
	k.mu.Lock()
	if len(k.asked) == 0 || k.asked[len(k.asked)-1] != sum {
		k.asked = append(k.asked, sum)
	}
	k.mu.Unlock()
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Status.Phase == corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, _ = k.client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	}
}

// TestClusterLoader2RunsTheFiles: the program accepts both files as they are, creates what they say
// and waits for it; a share of the Pods goes and comes back. There is no node, and no Prometheus,
// so nothing is measured.
func TestClusterLoader2RunsTheFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Kubernetes control plane")
	}
	loader := program(t)
	api := kubeapi.Start(t, kubeapi.Options{})
	client, err := kubernetes.NewForConfig(api.Config())
	require.NoError(t, err)
	for _, c := range []struct {
		file, overrides string
		asked           []int
	}{
		{"churn.yaml", "CL2_SIDECARS: 8\nCL2_CHURN: 50\nCL2_DEPLOYMENTS: 2\nCL2_REVISION: canary\n", []int{8, 4, 8}},
		{"services.yaml", "CL2_SIDECARS: 6\nCL2_SERVICES: 3\nCL2_RATE: 10\n", []int{6}},
	} {
		t.Run(c.file, func(t *testing.T) {
			dir := t.TempDir()
			overrides := filepath.Join(dir, "overrides.yaml")
			require.NoError(t, os.WriteFile(overrides, []byte(c.overrides), 0o600))
			ctx, cancel := context.WithCancel(t.Context())
			k, done := &kubelet{client: client}, make(chan struct{})
			go func() { defer close(done); k.run(ctx) }()
			out, err := exec.Command(loader, "--testconfig", filepath.Join(examples, c.file), "--provider", "local",
				"--kubeconfig", api.Kubeconfig(), "--testoverrides", overrides, "--report-dir", dir, "--nodes", "1",
				"--skip-cluster-verification", "--enable-exec-service=false", "--port", "0").CombinedOutput()
			cancel()
			<-done
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), "Status: Success")
			for _, want := range c.asked { // Deployments are written one after the other
				at := slices.Index(k.asked, want)
				require.GreaterOrEqual(t, at, 0, fmt.Sprint(k.asked))
				k.asked = k.asked[at:]
			}
			left, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{LabelSelector: "group=sidecars"})
			require.NoError(t, err)
			require.Empty(t, left.Items, "it deletes what it has created")
		})
	}
}
