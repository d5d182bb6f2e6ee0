package kubelet

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// containerLog is what a container has written, in a file. It outlives restarts of the container.
type containerLog struct {
	path string

	mu    sync.Mutex
	size  int64
	marks []mark // one for each second with output
}

// mark is where the output of a second begins.
type mark struct {
	second time.Time
	offset int64
}

// log returns the log of a container, and makes one if there is none.
func (w *worker) log(container string) *containerLog {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.logs[container]
	if l == nil {
		l = &containerLog{path: filepath.Join(w.dir(), container+".log")}
		w.logs[container] = l
	}
	return l
}

// pipe returns what a process writes into, and starts to follow it. The caller closes it.
func (l *containerLog) pipe() (*os.File, error) {
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	r, pipe, err := os.Pipe()
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	go func() { // until the process and those that it has started have ended
		defer func() { _, _ = file.Close(), r.Close() }()
		buffer := make([]byte, 32<<10)
		for {
			n, err := r.Read(buffer)
			l.write(file, buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return pipe, nil
}

func (l *containerLog) write(file *os.File, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().Truncate(time.Second)
	if len(l.marks) == 0 || l.marks[len(l.marks)-1].second.Before(now) {
		l.marks = append(l.marks, mark{now, l.size})
	}
	n, _ := file.Write(text) // a full disk fails elsewhere too
	l.size += int64(n)
}

// since returns what was written since a time, give or take a second.
func (l *containerLog) since(t time.Time) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.marks, func(m mark) bool { return !m.second.Before(t.Truncate(time.Second)) })
	if at < 0 {
		return nil, nil
	}
	file, err := os.Open(l.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return io.ReadAll(io.NewSectionReader(file, l.marks[at].offset, l.size-l.marks[at].offset))
}

// serveLog answers kubectl logs, of the options --since-time alone.
func (k *Kubelet) serveLog(w http.ResponseWriter, r *http.Request) {
	worker := k.worker(r.PathValue("namespace"), r.PathValue("pod"))
	if worker == nil {
		http.NotFound(w, r)
		return
	}
	var since time.Time
	if text := r.URL.Query().Get("sinceTime"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			http.Error(w, fmt.Sprintf("sinceTime: %v", err), http.StatusBadRequest)
			return
		}
		since = t
	}
	text, err := worker.log(r.PathValue("container")).since(since)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write(text) // who asked may have gone
}
