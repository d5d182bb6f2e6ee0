package app

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/app/config"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source/kube"
	"github.com/lateen-mesh/lateen/internal/testkit/heap"
)

// bytesOfAPod is how much memory one Pod of a cluster may cost, in the whole process: one whose
// replicas have the same labels, and one with a label or two that no other Pod has.
const bytesOfAPod = 500

// TestAPodOfAClusterCostsLittle lets a source read 10,000 Pods as an API server shows them into a
// whole control plane, and measures what stays in its heap of each: all that the source remembers
// of it, its Workload, and its places in the state's indexes. What Pods share with their replicas
// counts once, however often garbage is collected while they come. No Service has them as
// endpoints; those are measured with the estate.
func TestAPodOfAClusterCostsLittle(t *testing.T) {
	if testing.Short() || raced {
		t.Skip("measures memory")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	kept := retained(t, nil)
	for _, test := range []struct {
		name string
		make func(int) *corev1.Pod
	}{{"of a Deployment", podOf}, {"of a StatefulSet", memberOf}} {
		t.Run(test.name, func(t *testing.T) {
			const count = 10000
			pods := podsOf(t, count, test.make)
			each := int(retained(t, pods)-kept) / count
			t.Logf("%d bytes for each Pod of %d bytes", each, len(pods.stream)/count)
			require.Less(t, each, bytesOfAPod)
		})
	}
}

// crowd is Pods as a watch yields them, in Kubernetes' protobuf.
type crowd struct {
	last   *corev1.Pod
	stream []byte
}

func podsOf(t *testing.T, count int, make func(int) *corev1.Pod) *crowd {
	c := &crowd{last: make(count - 1)}
	for i := range count {
		c.stream = append(c.stream, frame(t, "ADDED", make(i))...)
	}
	return c
}

// frame is an event of a watch in Kubernetes' protobuf: its length, and an event around an object
// that says what it is.
func frame(t *testing.T, kind string, o *corev1.Pod) []byte {
	raw, err := o.Marshal()
	require.NoError(t, err)
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: raw}
	body, err := unknown.Marshal()
	require.NoError(t, err)
	event, err := (&metav1.WatchEvent{
		Type:   kind,
		Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), body...)},
	}).Marshal()
	require.NoError(t, err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// retained is the memory that a control plane keeps which has read these Pods, or none for nil.
func retained(t *testing.T, pods *crowd) int64 {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stream(t, w, r, pods)
	}))
	defer server.Close()
	before := heap.InUse().Heap
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	settings, err := config.FromEnv(func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	metrics := observe.New(observe.Build{Now: time.Now})
	from, err := kube.New(kube.Options{
		Config:        &rest.Config{Host: server.URL},
		RootNamespace: "istio-system",
		ConfigMap:     "istio",
		Metrics:       &metrics.Source,
		Logger:        log,
	})
	require.NoError(t, err)
	p := New(Options{
		Source:     from,
		Config:     settings,
		Mesh:       model.DefaultMesh(),
		Metrics:    metrics,
		XDS:        listen(),
		Monitoring: listen(),
		Log:        log,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	<-p.Opened()
	if pods != nil {
		require.NotNil(t, p.Snapshot().Workload(pods.last.Namespace, pods.last.Name))
	}
	kept := heap.InUse().Heap - before
	goruntime.KeepAlive(p)
	cancel()
	require.NoError(t, <-ended)
	return kept
}

// stream is an API server with Pods and nothing else.
func stream(t *testing.T, w http.ResponseWriter, r *http.Request, pods *crowd) {
	if strings.Contains(r.Header.Get("Accept"), "protobuf") {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		if pods != nil && strings.HasSuffix(r.URL.Path, "/pods") {
			_, _ = w.Write(pods.stream)
		}
		end := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "9",
			Annotations:     map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}}
		_, _ = w.Write(frame(t, "BOOKMARK", end))
	} else {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintln(w, `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Pod","metadata":`+
			`{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`)
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}
