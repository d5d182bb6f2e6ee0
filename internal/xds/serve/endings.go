package serve

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/xds/fanout"
)

// endings ends streams at a time: those whose token or certificate has expired, and those whose Pod
// is gone. One timer serves all streams. A client learns only that its stream is canceled; the log
// says why, and so does the refusal of the next stream if nothing has changed.
type endings struct {
	now    func() time.Time
	jitter func() time.Duration

	mu    sync.Mutex
	queue endingQueue
	pods  map[podName][]*ending
	gone  map[podName]time.Time // until when the Pod's identity is refused
	order []podName             // of gone, oldest first; may have names that are not in gone any more
	timer *time.Timer
}

// ending is when and why a stream ends.
type ending struct {
	stream *stream
	pod    podName
	at     time.Time
	why    error
	index  int // in the queue; negative if it is not there
}

// podName is the proven Pod of a stream; zero for none.
type podName struct{ namespace, name string }

func podOf(id Identity) podName {
	if id.Pod == "" {
		return podName{}
	}
	return podName{id.Namespace, id.Pod}
}

var (
	errPodGone       = errors.New("its Pod is gone")
	errTokenExpired  = errors.New("its token or certificate has expired; it may reconnect with a new one")
	errRightsChanged = errors.New("its service account has other rights now; it may reconnect")
)

// refusedLater is why a stream ends that had been let in.
type refusedLater struct{ error }

// Unwrap returns the gRPC status.
func (r refusedLater) Unwrap() error { return r.error }

// endReason returns the label of an error that ends streams, empty for others.
func endReason(err error) string {
	switch {
	case errors.Is(err, errPodGone):
		return "pod_gone"
	case errors.Is(err, errTokenExpired):
		return "token_expired"
	case errors.Is(err, errRightsChanged):
		return "rights_changed"
	case errors.As(err, new(refusedLater)):
		return "registration_refused"
	}
	return ""
}

const (
	// podGrace lets a proxy end by itself after its Pod.
	podGrace = 5 * time.Second
	// expiryGrace is how long a stream outlives its token or certificate, at least. Both are
	// renewed well before, so there is a new one by then.
	expiryGrace = time.Minute
	// expirySpread is how much longer a stream may live, at random: tokens of Pods that started
	// together expire together.
	expirySpread = 4 * time.Minute
	// goneFor is how long the identity of a Pod that is gone is refused: longer than an
	// Authenticator may remember its token.
	goneFor = 5 * time.Minute
	// maxGone is the limit of Pods that are remembered as gone; the oldest is forgotten first.
	maxGone = 16384
)

func newEndings(now func() time.Time) *endings {
	return &endings{
		now:    now,
		jitter: func() time.Duration { return rand.N(expirySpread) },
		pods:   map[podName][]*ending{},
		gone:   map[podName]time.Time{},
	}
}

// add takes up a stream that has begun.
func (e *endings) add(st *stream) {
	pod, expires := podOf(st.owner.identity), st.expires
	if pod == (podName{}) && expires.IsZero() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	end := &ending{stream: st, pod: pod, index: -1}
	st.ending = end
	if pod != (podName{}) {
		e.pods[pod] = append(e.pods[pod], end)
	}
	switch {
	case e.isGoneNow(pod):
		e.schedule(end, e.now(), errPodGone) // it went while the stream began
	case !expires.IsZero():
		if now := e.now(); expires.Before(now) {
			expires = now // as a clock says that is wrong: who issued the token has just accepted it
		}
		e.schedule(end, expires.Add(expiryGrace+e.jitter()), errTokenExpired)
	}
}

// remove forgets a stream that has ended.
func (e *endings) remove(st *stream) {
	end := st.ending
	if end == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if end.index >= 0 {
		heap.Remove(&e.queue, end.index)
	}
	if end.pod == (podName{}) {
		return
	}
	same := e.pods[end.pod]
	if i := slices.Index(same, end); i >= 0 {
		same = slices.Delete(same, i, i+1)
	}
	if e.pods[end.pod] = same; len(same) == 0 {
		delete(e.pods, end.pod)
	}
}

// podGone ends the streams of a Pod after podGrace, and refuses its identity for a while.
func (e *endings) podGone(pod podName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for len(e.order) > 0 && (len(e.order) >= maxGone || !now.Before(e.gone[e.order[0]])) {
		delete(e.gone, e.order[0])
		e.order = e.order[1:]
	}
	if _, known := e.gone[pod]; !known {
		e.order = append(e.order, pod)
	}
	e.gone[pod] = now.Add(goneFor)
	for _, end := range e.pods[pod] {
		e.schedule(end, now.Add(podGrace), errPodGone)
	}
}

// podCame accepts the identity of a Pod again: one of the same name has been created. Streams of
// the former Pod end as planned.
func (e *endings) podCame(pod podName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.gone, pod)
}

// isGone reports whether a Pod was removed a short time ago.
func (e *endings) isGone(pod podName) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.isGoneNow(pod)
}

// isGoneNow is isGone for a caller that holds mu.
func (e *endings) isGoneNow(pod podName) bool { return e.now().Before(e.gone[pod]) }

// schedule has a stream end at a time, unless it ends earlier. The caller holds mu.
func (e *endings) schedule(end *ending, at time.Time, why error) {
	switch {
	case end.index < 0:
		end.at, end.why = at, why
		heap.Push(&e.queue, end)
	case at.Before(end.at):
		end.at, end.why = at, why
		heap.Fix(&e.queue, end.index)
	default:
		return
	}
	if end.index == 0 {
		e.arm()
	}
}

// arm sets the timer to the first end. The caller holds mu.
func (e *endings) arm() {
	if len(e.queue) == 0 {
		return
	}
	wait := e.queue[0].at.Sub(e.now())
	if e.timer == nil {
		e.timer = time.AfterFunc(wait, e.endDue)
		return
	}
	e.timer.Reset(wait)
}

// endDue ends the streams whose time has come.
func (e *endings) endDue() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for now := e.now(); len(e.queue) > 0 && !now.Before(e.queue[0].at); {
		end := e.queue[0]
		heap.Pop(&e.queue)
		end.stream.cancel(end.why)
	}
	e.arm()
}

// endingQueue is a heap by time.
type endingQueue []*ending

func (q endingQueue) Len() int           { return len(q) }
func (q endingQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }

func (q endingQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *endingQueue) Push(x any) {
	end, _ := x.(*ending)
	end.index = len(*q)
	*q = append(*q, end)
}

// Pop implements heap.Interface.
func (q *endingQueue) Pop() any {
	last := len(*q) - 1
	end := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	end.index = -1
	return end
}

// PodGone ends the streams that proved to be of a Pod, after a short grace.
func (s *Server) PodGone(namespace, name string) { s.endings.podGone(podName{namespace, name}) }

// PodCame accepts streams of a Pod again whose namesake is gone.
func (s *Server) PodCame(namespace, name string) { s.endings.podCame(podName{namespace, name}) }

// EndGateways ends the streams of gateways that proved to run as a service account, so that they
// connect anew.
func (s *Server) EndGateways(namespace, serviceAccount string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		if id := &st.owner.identity; st.node.Type == Router && id.Namespace == namespace &&
			id.ServiceAccount == serviceAccount {
			st.cancel(errRightsChanged)
		}
	}
}

// EndRefused ends the stream of a connection that was let in before it was known that it would be
// refused. Its client learns why when it comes again.
func (s *Server) EndRefused(conn *fanout.Conn, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		if st.conn == conn {
			st.cancel(refusedLater{why})
			return
		}
	}
}
