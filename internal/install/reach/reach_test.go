package reach

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// cluster is an API server that answers as handle does.
func cluster(t *testing.T, handle http.HandlerFunc) *Cluster {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	c, err := New(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return c
}

func pod(name, revision string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "istio-system", Labels: map[string]string{"istio.io/rev": revision},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// TestReplicasAreRunningPodsByRevision: those that start or end answer nobody.
func TestReplicasAreRunningPodsByRevision(t *testing.T) {
	ending := pod("ending", "default", corev1.PodRunning)
	ended := metav1.Unix(1, 0)
	ending.DeletionTimestamp = &ended
	var asked []string
	c := cluster(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.URL.Query().Get("labelSelector"))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{Items: []corev1.Pod{
			pod("b", "default", corev1.PodRunning), pod("starting", "default", corev1.PodPending), ending,
			pod("c", "canary", corev1.PodRunning), pod("a", "default", corev1.PodRunning),
		}})
	})
	found, err := c.Replicas(t.Context(), "istio-system", "")
	require.NoError(t, err)
	require.Equal(t, []Replica{
		{"istio-system", "c", "canary"}, {"istio-system", "a", "default"}, {"istio-system", "b", "default"},
	}, found)
	_, err = c.Replicas(t.Context(), "istio-system", "canary")
	require.NoError(t, err)
	const path = "/api/v1/namespaces/istio-system/pods app.kubernetes.io/name=lateen,app=istiod"
	require.Equal(t, []string{path, path + ",istio.io/rev=canary"}, asked)
}

func TestReplicasThatMayNotBeListedAreAnError(t *testing.T) {
	c := cluster(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	_, err := c.Replicas(t.Context(), "istio-system", "")
	require.ErrorContains(t, err, "listing the control plane's Pods in namespace istio-system: ")
}

// kubelet answers a forwarded connection: with what it was sent, or with its failure to connect. It
// takes SPDY alone, as old API servers do.
func kubelet(failure string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "websocket" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		take := func(s httpstream.Stream, _ <-chan struct{}) error {
			streams <- s
			return nil
		}
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, take)
		defer func() { _ = connection.Close() }()
		for range 2 {
			select {
			case s := <-streams:
				serve(s, failure)
			case <-connection.CloseChan():
				return
			}
		}
		<-connection.CloseChan()
	}
}

// serve writes the failure on the stream of errors, and on that of data what comes, after the port.
func serve(s httpstream.Stream, failure string) {
	switch {
	case s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError:
		_, _ = io.WriteString(s, failure)
		_ = s.Close()
	case failure != "":
		_ = s.Close()
	default:
		_, _ = io.WriteString(s, s.Headers().Get(corev1.PortHeader)+" ")
		go func() { _, _ = io.Copy(s, s) }()
	}
}

func TestDialConnectsToAPortThroughTheAPIServer(t *testing.T) {
	asked := make(chan string, 2)
	serves := kubelet("")
	c := cluster(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path
		serves(w, r)
	})
	conn, err := c.Dial(t.Context(), "istio-system", "istiod-0", 15014)
	require.NoError(t, err)
	require.Equal(t, "istiod-0:15014", conn.RemoteAddr().String())
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	got := make([]byte, len("15014 hello"))
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, "15014 hello", string(got))
	require.NoError(t, conn.Close())
	require.Equal(t, "/api/v1/namespaces/istio-system/pods/istiod-0/portforward", <-asked)
}

func TestTheKubeletsWordsAreTheError(t *testing.T) {
	c := cluster(t, kubelet("connect: connection refused"))
	conn, err := c.Dial(t.Context(), "istio-system", "istiod-0", 15014)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.EqualError(t, err, "connect: connection refused")
	require.NoError(t, conn.Close())
}

func TestDialThatIsRefusedNamesThePod(t *testing.T) {
	c := cluster(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	_, err := c.Dial(t.Context(), "istio-system", "istiod-0", 15014)
	require.ErrorContains(t, err, "connecting to port 15014 of Pod istio-system/istiod-0: ")
}

func TestDialEndsWithItsContext(t *testing.T) {
	release := make(chan struct{})
	c := cluster(t, func(http.ResponseWriter, *http.Request) { <-release })
	t.Cleanup(func() { close(release) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Dial(ctx, "istio-system", "istiod-0", 15014)
	require.ErrorIs(t, err, context.Canceled)
}
