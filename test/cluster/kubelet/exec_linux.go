package kubelet

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// execProtocol is the version of the streams that a command gets: its error stream ends empty, or
// with a Status.
const execProtocol = "v4.channel.k8s.io"

// Handler serves what the API server asks a kubelet for: commands in containers (kubectl exec)
// without standard input, and their logs.
func (k *Kubelet) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.exec)
	mux.HandleFunc("/containerLogs/{namespace}/{pod}/{container}", k.serveLog)
	return mux
}

func (k *Kubelet) exec(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{execProtocol}); err != nil {
		return
	}
	query := r.URL.Query()
	count := 1
	for _, stream := range []string{"output", "error"} {
		if query.Get(stream) != "" {
			count++
		}
	}
	opened := make(chan httpstream.Stream, count)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r,
		func(s httpstream.Stream, _ <-chan struct{}) error {
			select {
			case opened <- s:
				return nil
			default:
				return fmt.Errorf("want %d streams", count)
			}
		})
	if connection == nil {
		return
	}
	defer func() { _ = connection.Close() }()
	streams := map[string]httpstream.Stream{}
	for len(streams) < count {
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-connection.CloseChan():
			return
		}
	}
	output, err := k.Execute(r.Context(), Execution{
		Namespace: r.PathValue("namespace"), Pod: r.PathValue("pod"), Container: r.PathValue("container"),
		Command: query["command"],
	})
	if s := streams[corev1.StreamTypeStdout]; s != nil {
		_, _ = s.Write([]byte(output)) // who asked may have gone
	}
	if err != nil {
		_, _ = fmt.Fprintf(streams[corev1.StreamTypeError], `{"status": "Failure", "message": %q}`, err.Error())
	}
	for _, s := range streams {
		_ = s.Close()
	}
	<-connection.CloseChan()
}
