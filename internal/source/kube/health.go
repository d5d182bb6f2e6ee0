package kube

import (
	"fmt"
	"sync"

	"github.com/lateen-mesh/lateen/internal/source"
)

// health reports why the source cannot read: for each watcher what it may not read, and once for
// all watchers that the API server does not answer.
type health struct {
	server string
	send   func(source.Event)

	mu         sync.Mutex
	refused    map[*watcher]bool
	unanswered map[*watcher]bool // watchers that get no answer
}

func newHealth(server string, send func(source.Event)) *health {
	return &health{server: server, send: send, refused: map[*watcher]bool{}, unanswered: map[*watcher]bool{}}
}

const apiOrigin = "the Kubernetes API"

// failed records a failure of a watcher.
func (h *health) failed(w *watcher, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if refused(err) {
		if !h.refused[w] {
			h.refused[w] = true
			severity := source.Error
			if w.resource.metadataOnly() && !w.resource.tags {
				severity = source.Warning
			}
			h.report(w.description(), &source.Problem{
				Severity: severity,
				Origin:   h.server,
				Message:  w.description() + " is refused: " + err.Error() + w.consequence(),
				Want:     fmt.Sprintf("a ClusterRole that allows the verbs get, list and watch on %s", w.definition()),
			})
		}
		return
	}
	if len(h.unanswered) == 0 {
		h.report(apiOrigin, &source.Problem{
			Severity: source.Error,
			Origin:   h.server,
			Message:  "does not answer: " + err.Error() + "; the last known state stays in force",
		})
	}
	h.unanswered[w] = true
}

// unserved records that a watcher's resource is not served, and that nobody may know whether it is
// gone.
func (h *health) unserved(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused[w] {
		return
	}
	h.refused[w] = true
	h.report(w.description(), &source.Problem{
		Severity: source.Error,
		Origin:   h.server,
		Message: w.description() + " is not possible: the API server does not serve it, and whether its " +
			"CustomResourceDefinition is gone may not be read; the last known state stays in force",
		Want: "a ClusterRole that allows the verb get on customresourcedefinitions.apiextensions.k8s.io",
	})
}

// recovered records that a watcher reads.
func (h *health) recovered(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refused[w] {
		delete(h.refused, w)
		h.report(w.description(), nil)
	}
	if h.unanswered[w] {
		delete(h.unanswered, w)
		if len(h.unanswered) == 0 {
			h.report(apiOrigin, nil)
		}
	}
}

// forget removes a watcher that ends.
func (h *health) forget(w *watcher) { h.recovered(w) }

// report sends a report. The caller holds the lock, so that reports stay in order.
func (h *health) report(origin string, p *source.Problem) {
	r := source.Report{Origin: origin}
	if p != nil {
		r.Problems = []source.Problem{*p}
	}
	h.send(source.Event{Reports: []source.Report{r}})
}

// description says what a watcher does.
func (w *watcher) description() string {
	if w.resource.tags {
		return "watching " + w.definition() + " for revision tags"
	}
	if w.namespace == "" {
		return "watching " + w.definition()
	}
	return fmt.Sprintf("watching %s in namespace %s", w.definition(), w.namespace)
}

// consequence says what follows when the watcher is refused.
func (w *watcher) consequence() string {
	switch {
	case w.resource.tags && w.listed:
		return "; the last known revision tags stay in force"
	case w.resource.kind == "" && !w.resource.tags:
		return "; definitions that appear are noticed within " + maxUnknownRetry.String()
	case w.resource.reported:
		return "; its objects are not in force, which is then not reported of each"
	case w.read:
		return "; the last known state stays in force"
	case w.resource.watch.Optional:
		return "; what depends on it is not in force"
	}
	return "; nothing is served before it is read"
}
