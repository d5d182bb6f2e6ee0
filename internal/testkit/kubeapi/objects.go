package kubeapi

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// Namespace creates a namespace with a name of its own and returns the name. With a controller
// manager it waits until Pods can be created there, which need the service account "default". When
// the test ends, it is deleted; what it holds goes a little later.
func (s *Server) Namespace(t testing.TB, labels map[string]string) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	fatal(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), objectTimeout)
	defer cancel()
	created, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels},
	}, metav1.CreateOptions{})
	fatal(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), objectTimeout)
		defer cancel()
		// A test may have stopped the server.
		_ = client.CoreV1().Namespaces().Delete(ctx, created.Name, metav1.DeleteOptions{})
	})
	if !s.options.NoControllerManager {
		fatal(t, await(ctx, func(ctx context.Context) error {
			_, err := client.CoreV1().ServiceAccounts(created.Name).Get(ctx, "default", metav1.GetOptions{})
			return err
		}))
	}
	return created.Name
}

// Node creates a node that is ready and stays so without a kubelet (nodes may be silent for long,
// see managerArgs). It is deleted when the test ends.
func (s *Server) Node(t testing.TB, name string, labels map[string]string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	fatal(t, err)
	nodes := client.CoreV1().Nodes()
	_, err = nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
		metav1.CreateOptions{})
	fatal(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), objectTimeout)
		defer cancel()
		_ = nodes.Delete(ctx, name, metav1.DeleteOptions{})
	})
	// A controller may write to the node meanwhile.
	fatal(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{
			Type:   corev1.NodeReady,
			Status: corev1.ConditionTrue,
			Reason: "Test",
		}}
		_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
}

// RunPod creates a Pod and says of it what a kubelet would say once it runs and is ready at an
// address. The Pod must name a node that exists, else it becomes no endpoint. Loopback addresses
// are refused in EndpointSlices.
func (s *Server) RunPod(t testing.TB, pod *corev1.Pod, address string) *corev1.Pod {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.Config())
	fatal(t, err)
	pods := client.CoreV1().Pods(pod.Namespace)
	created, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	fatal(t, err)
	fatal(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
		created, err = pods.Get(t.Context(), created.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		created.Status.Phase = corev1.PodRunning
		created.Status.PodIP, created.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
		created.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		created, err = pods.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
		return err
	}))
	return created
}
