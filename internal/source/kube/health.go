package kube

import (
	"fmt"
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// health tells what keeps the source from reading: for each watcher what it may not read, and once for all that the API server
// does not answer.
type health struct {
	server string
	send   func(source.Event)

	mu      sync.Mutex
	refused map[*watcher]bool
	cut     map[*watcher]bool // without an answer
}

func newHealth(server string, send func(source.Event)) *health {
	return &health{server: server, send: send, refused: map[*watcher]bool{}, cut: map[*watcher]bool{}}
}

const unreachable = "the Kubernetes API"

// ill notes a failure.
func (h *health) ill(w *watcher, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if refused(err) {
		if !h.refused[w] {
			h.refused[w] = true
			severity := source.Error
			if w.resource.kind == "" {
				severity = source.Warning
			}
			h.report(w.title(), &source.Problem{
				Severity: severity, Origin: h.server, Message: w.title() + " is refused: " + err.Error() + w.meaning(),
				Want: fmt.Sprintf("a ClusterRole that allows the verbs get, list and watch on %s", w.definition()),
			})
		}
		return
	}
	if len(h.cut) == 0 {
		h.report(unreachable, &source.Problem{
			Severity: source.Error, Origin: h.server, Message: "does not answer: " + err.Error() + "; the last known state stays in force",
		})
	}
	h.cut[w] = true
}

// well notes that a watcher reads.
func (h *health) well(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused[w] {
		delete(h.refused, w)
		h.report(w.title(), nil)
	}
	if h.cut[w] {
		delete(h.cut, w)
		if len(h.cut) == 0 {
			h.report(unreachable, nil)
		}
	}
}

// forget is called when a watcher ends.
func (h *health) forget(w *watcher) { h.well(w) }

// report is called with the lock held, so that reports stay in order.
func (h *health) report(origin string, p *source.Problem) {
	r := source.Report{Origin: origin}
	if p != nil {
		r.Problems = []source.Problem{*p}
	}
	h.send(source.Event{Reports: []source.Report{r}})
}

// title says what a watcher does.
func (w *watcher) title() string {
	if w.namespace == "" {
		return "watching " + w.definition()
	}
	return fmt.Sprintf("watching %s in namespace %s", w.definition(), w.namespace)
}

// meaning says what follows from its being refused.
func (w *watcher) meaning() string {
	switch {
	case w.resource.kind == "":
		return "; definitions that appear are noticed within " + unknownCRDsMost.String()
	case w.read:
		return "; the last known state stays in force"
	case w.resource.watch.Optional:
		return "; what depends on it is not in force"
	}
	return "; nothing is served before it is read"
}
