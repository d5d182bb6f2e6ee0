package status

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	networkingv1 "istio.io/client-go/pkg/apis/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/observe"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fakeAPI holds the VirtualServices of an API server, by name.
type fakeAPI struct {
	mu      sync.Mutex
	objects map[string]*liveObject
	version int
	// disturb is called before each patch is taken.
	disturb func(*liveObject)
	patches int
	reads   int
}

func (f *fakeAPI) put(name string, generation int64, conditions ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &liveObject{}
	l.Metadata.Namespace, l.Metadata.Name, l.Metadata.Generation = "default", name, generation
	for _, c := range conditions {
		l.Status.Conditions = append(l.Status.Conditions, json.RawMessage(c))
	}
	f.objects[name] = l
	f.touch(l)
}

func (f *fakeAPI) touch(l *liveObject) {
	f.version++
	l.Metadata.ResourceVersion = fmt.Sprint(f.version)
}

func (f *fakeAPI) count() (reads, patches int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads, f.patches
}

// conditions are those of an object, as JSON.
func (f *fakeAPI) conditions(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out, _ := json.Marshal(f.objects[name].Status.Conditions)
	return string(out)
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason})
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/apis/networking.istio.io/v1/")
	if path == "virtualservices" {
		_ = json.NewEncoder(w).Encode(map[string]any{"items": slices.Collect(maps.Values(f.objects))})
		return
	}
	name, status := strings.CutSuffix(strings.TrimPrefix(path, "namespaces/default/virtualservices/"), "/status")
	l := f.objects[name]
	switch {
	case l == nil:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		f.reads++
		_ = json.NewEncoder(w).Encode(l)
	case r.Method == http.MethodPatch && status:
		if f.disturb != nil {
			f.disturb(l)
			f.disturb = nil
		}
		body, _ := io.ReadAll(r.Body)
		var patch liveObject
		if json.Unmarshal(body, &patch) != nil || patch.Metadata.ResourceVersion != l.Metadata.ResourceVersion {
			refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
			return
		}
		f.patches++
		l.Status = patch.Status
		f.touch(l)
		_ = json.NewEncoder(w).Encode(l)
	}
}

// harness is a Board and an API server; replicas come and go.
type harness struct {
	t       *testing.T
	board   *Tracker
	fake    *fakeAPI
	api     API
	metrics *observe.Metrics
}

func newHarness(t *testing.T) *harness {
	fake := &fakeAPI{objects: map[string]*liveObject{}}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	api, err := NewAPI(&rest.Config{Host: server.URL, Transport: transport})
	require.NoError(t, err)
	return &harness{t, NewTracker(), fake, api, nil}
}

// lead is one time as the leader; it ends with what is returned.
func (h *harness) lead() (resign func()) {
	h.metrics = observe.New(observe.Build{Start: time.Now(), Now: time.Now})
	w := NewWriter(WriterOptions{
		Tracker: h.board, API: h.api, Metrics: h.metrics, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(0, 0) },
	})
	w.pace = 0
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func key(name string) source.Key {
	return source.Key{Kind: kinds.VirtualService, Namespace: "default", Name: name}
}

func change(name string, generation int64) source.Change {
	return source.Change{
		Key:    key(name),
		Object: &networkingv1.VirtualService{ObjectMeta: metav1.ObjectMeta{Generation: generation}},
	}
}

func problem(name, message string) []source.Problem {
	return []source.Problem{{Severity: source.Error, Object: key(name), Path: "spec", Message: message}}
}

func (h *harness) until(name, want string) {
	h.t.Helper()
	require.Eventually(h.t, func() bool { return h.fake.conditions(name) == want }, 3*time.Minute, time.Millisecond,
		"want %s, have %s", want, h.fake.conditions(name))
}

// counted is how many writes had a result.
func (h *harness) counted(result string) float64 {
	var m dto.Metric
	require.NoError(h.t, h.metrics.Status.Writes.WithLabelValues(result).Write(&m))
	return m.GetCounter().GetValue()
}

const (
	ready   = `{"type":"Ready","status":"True","by":"somebody else"}`
	invalid = `{"type":"Accepted","status":"False","reason":"Invalid","message":"error: spec: is bad",` +
		`"observedGeneration":%d,"lastTransitionTime":"1970-01-01T00:00:00Z"}`
	fine = `{"type":"Accepted","status":"True","reason":"Accepted",` +
		`"observedGeneration":%d,"lastTransitionTime":"1970-01-01T00:00:00Z"}`
)

func list(conditions ...string) string { return "[" + strings.Join(conditions, ",") + "]" }

func TestAProblemIsWrittenAndTakenBackOnce(t *testing.T) {
	h := newHarness(t)
	h.fake.put("bad", 1, ready)
	h.board.Problems(problem("bad", "is bad"), nil)
	h.board.Applied([]source.Change{change("bad", 1)})
	resign := h.lead()
	h.until("bad", list(ready, fmt.Sprintf(invalid, 1)))

	h.board.Problems(nil, problem("bad", "is bad"))
	h.board.Applied([]source.Change{change("bad", 2)})
	h.until("bad", list(ready, fmt.Sprintf(fine, 2)))
	resign()

	// Another leader has nothing to write, and asks about no object by itself.
	before, patches := h.fake.count()
	require.Equal(t, 2, patches)
	resign = h.lead()
	h.board.Problems(problem("bad", "is bad"), nil)
	h.board.Applied(nil)
	h.until("bad", list(ready, fmt.Sprintf(invalid, 2)))
	resign()
	after, patches := h.fake.count()
	require.Equal(t, 3, patches)
	require.Equal(t, before+1, after)
}

// TestEachObjectIsWrittenOnceForEachGeneration: of the objects that were there when the process
// started, those that lack the condition get it, and those that have it for another generation get
// theirs. The next leader, of another process too, writes nothing.
func TestEachObjectIsWrittenOnceForEachGeneration(t *testing.T) {
	h := newHarness(t)
	const there = 12
	var initial []source.Change
	for i := range there {
		name := fmt.Sprintf("there-%d", i)
		switch i % 3 {
		case 0:
			h.fake.put(name, 2)
		case 1:
			h.fake.put(name, 2, fmt.Sprintf(fine, 1))
		case 2:
			h.fake.put(name, 2, fmt.Sprintf(fine, 2))
		}
		initial = append(initial, change(name, 2))
	}
	h.board.Applied(initial)
	resign := h.lead()
	for i := range there {
		h.until(fmt.Sprintf("there-%d", i), list(fmt.Sprintf(fine, 2)))
	}
	h.fake.put("new", 1)
	h.board.Applied([]source.Change{change("new", 1)})
	h.until("new", list(fmt.Sprintf(fine, 1)))
	h.board.Applied([]source.Change{change("new", 1)}) // our own write comes back
	h.board.Applied(initial)                           // all is listed anew
	h.fake.put("new", 2, fmt.Sprintf(fine, 1))
	h.board.Applied([]source.Change{change("new", 2)})
	h.until("new", list(fmt.Sprintf(fine, 2)))
	resign()
	_, patches := h.fake.count()
	require.Equal(t, there*2/3+2, patches)

	restarted := &harness{t, NewTracker(), h.fake, h.api, nil}
	restarted.board.Applied(append(initial, change("new", 2)))
	resign = restarted.lead()
	h.fake.put("last", 1)
	restarted.board.Applied([]source.Change{change("last", 1)})
	h.until("last", list(fmt.Sprintf(fine, 1)))
	resign()
	_, patches = h.fake.count()
	require.Equal(t, there*2/3+3, patches, "nothing but what is new")
}

func TestAConflictIsTriedAgain(t *testing.T) {
	h := newHarness(t)
	h.fake.put("bad", 1)
	h.fake.disturb = func(l *liveObject) { // somebody else writes a condition meanwhile
		l.Status.Conditions = []json.RawMessage{json.RawMessage(ready)}
		h.fake.touch(l)
	}
	h.board.Problems(problem("bad", "is bad"), nil)
	h.board.Applied([]source.Change{change("bad", 1)})
	resign := h.lead()
	h.until("bad", list(ready, fmt.Sprintf(invalid, 1)))
	resign()
}

// TestObjectsThatAreGoneCostNoRetry: one that the API server has lost before its status is written.
func TestObjectsThatAreGoneCostNoRetry(t *testing.T) {
	h := newHarness(t)
	h.fake.put("good", 7)
	h.board.Applied([]source.Change{change("good", 7), change("gone", 1)})
	resign := h.lead()
	h.until("good", list(fmt.Sprintf(fine, 7)))
	require.Eventually(t, func() bool { return h.counted(gone) == 1 }, 3*time.Minute, time.Millisecond)
	resign()
	require.Zero(t, h.counted(failed))
}

// TestABacklogIsPaced: in the time that the clock of the test has passed, no more objects are
// queued than the pace allows, and one that has changed does not wait for them.
func TestABacklogIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		metrics := observe.New(observe.Build{Start: time.Now(), Now: time.Now})
		w := NewWriter(WriterOptions{Tracker: NewTracker(), Metrics: metrics})
		w.statusQueue = newStatusQueue(ctx, inTurn(), metrics, nil)
		var backlog []source.Key
		for i := range 1000 {
			backlog = append(backlog, key(fmt.Sprint(i)))
		}
		go w.feed(ctx, backlog)
		<-time.After(10*time.Second + backlogPace/2)
		synctest.Wait()
		require.Equal(t, int(10*time.Second/backlogPace)+1, w.queue.Len())
		var pending dto.Metric
		require.NoError(t, metrics.Status.Pending.Write(&pending))
		require.InDelta(t, len(backlog), pending.GetGauge().GetValue(), 0, "queued or not")

		w.failures.Store(100) // the API server refuses all
		<-time.After(backlogPace)
		synctest.Wait()
		before := w.queue.Len()
		<-time.After(10 * maxRetry)
		synctest.Wait()
		require.Equal(t, before+10, w.queue.Len())
		cancel()
	})
}

// An object that cannot even be read is known by its problem alone, and not by its generation.
func TestWhatCannotBeReadHasTheGenerationThatIsThere(t *testing.T) {
	h := newHarness(t)
	h.fake.put("bad", 5)
	h.board.Applied(nil)
	h.board.Problems(problem("bad", "is bad"), nil)
	h.board.Applied(nil)
	resign := h.lead()
	h.until("bad", list(fmt.Sprintf(invalid, 5)))
	resign()
}

func TestBoardHoldsNothingOfWhatIsGone(t *testing.T) {
	b := NewTracker()
	b.Problems(problem("a", "is bad"), nil)
	b.Applied([]source.Change{change("a", 1), change("b", 1)})
	b.Applied([]source.Change{{Key: key("b")}})
	_, known := b.Get(key("b"))
	require.False(t, known)
	b.Problems(nil, problem("a", "is bad"))
	b.Applied([]source.Change{{Key: key("a")}})
	require.Empty(t, b.objects)
	require.Empty(t, b.changed)
}

func TestLongMessagesAreCut(t *testing.T) {
	var all []source.Problem
	for i := range 1000 {
		all = append(all, problem("a", fmt.Sprintf("is bad: %d", i))...)
	}
	c := conditionOf(Observation{Problems: all})
	require.LessOrEqual(t, len(c.Message), longestMessage+50)
	require.Regexp(t, `\nand \d+ more problems$`, c.Message)
}

func TestWarningsLeaveAnObjectAccepted(t *testing.T) {
	c := conditionOf(Observation{Problems: []source.Problem{{Message: "is odd"}}})
	require.Equal(t, condition{
		Type:    "Accepted",
		Status:  "True",
		Reason:  "AcceptedWithWarnings",
		Message: "warning: is odd",
	}, c)
}

// Gateways go before routes, and where both keep coming, routes still get their turn.
func TestParentsGoFirstAndOthersGetTheirTurn(t *testing.T) {
	q := newParentsFirst()
	push := func(kind kinds.Kind, n int) {
		for i := range n {
			q.Push(source.Key{Kind: kind, Name: fmt.Sprint(i)})
		}
	}
	push(kinds.HTTPRoute, 3)
	push(kinds.KubernetesGateway, 2*parentsAhead)
	var order []kinds.Kind
	for q.Len() > 0 {
		order = append(order, q.Pop().Kind)
	}
	turn := append(slices.Repeat([]kinds.Kind{kinds.KubernetesGateway}, parentsAhead), kinds.HTTPRoute)
	require.Equal(t, append(slices.Repeat(turn, 2), kinds.HTTPRoute), order)
}
