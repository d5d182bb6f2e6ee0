package machines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	networkingclient "istio.io/client-go/pkg/clientset/versioned/typed/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/lateen-mesh/lateen/internal/observe"
)

// Options are what a Registry needs.
type Options struct {
	API networkingclient.NetworkingV1Interface
	// Controller is the name by which entries say which replica their proxy is connected to: that
	// of its Pod.
	Controller string
	// Gone reports whether the replica of another name is gone. Nil: none is ever known to be.
	Gone func(ctx context.Context, controller string) (bool, error)
	// Registers is set if machines register themselves
	// (PILOT_ENABLE_WORKLOAD_ENTRY_AUTOREGISTRATION), and TakesHealth if the health of workloads is
	// written (PILOT_ENABLE_WORKLOAD_ENTRY_HEALTHCHECKS).
	Registers, TakesHealth bool
	// Grace is how long a proxy may be gone before its entry is removed, or its health forgotten.
	Grace   time.Duration
	Metrics observe.Machines
	Log     *slog.Logger
	Now     func() time.Time
}

// Bounds on what proxies can cause.
const (
	// perAccount is how many entries of one service account a replica keeps at a time.
	perAccount = 5000
	// longestMessage is how many bytes of the reason are kept for which a workload is unhealthy.
	longestMessage = 1 << 10
	// workers is how many entries are written at a time.
	workers = 4
	// requestTimeout bounds each request to the API server.
	requestTimeout = 10 * time.Second
	// patience is how long a stream waits for its entry. After it the proxy is served, and the
	// entry follows.
	patience = 5 * time.Second
	// minRetry and maxRetry are the shortest and the longest backoff of an entry.
	minRetry, maxRetry = 100 * time.Millisecond, time.Minute
)

// Errors of Connect that say whose fault it is.
var (
	ErrDenied  = errors.New("the proxy may not register")
	ErrMissing = errors.New("the object that the proxy names is missing")
	ErrTooMany = errors.New("too many entries")
)

// Registry knows the machines whose proxies are connected to this replica.
type Registry struct {
	o       Options
	started time.Time
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu       sync.Mutex
	records  map[types.NamespacedName]*record
	accounts map[types.NamespacedName]int // records of each service account
}

// record is one entry, as it should be. Registry.mu guards it.
type record struct {
	machine     Machine
	connections map[*Connection]struct{}
	// connectedAt is when the last of the proxy's connections began, and disconnectedAt when it
	// ended; zero while there is one.
	connectedAt, disconnectedAt time.Time
	// heir is set if the entry is that of another replica, which is gone.
	heir   string
	health *Health // the last that was told; nil: none
	// waiting get the outcome of the next attempt.
	waiting []chan error
}

// Health is what an agent says of its workload.
type Health struct {
	Healthy bool
	Message string // why it is not
	at      time.Time
}

// Connection is one stream of a machine's proxy.
type Connection struct {
	registry *Registry
	key      types.NamespacedName
}

// New returns a Registry that writes once Run runs.
func New(o Options) *Registry {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minRetry, maxRetry)
	return &Registry{
		o: o, started: o.Now(), queue: workqueue.NewTypedRateLimitingQueue(limiter),
		records: map[types.NamespacedName]*record{}, accounts: map[types.NamespacedName]int{},
	}
}

// Connect records that a machine's proxy is connected, and returns once its entry says so, or
// cannot be written for now. It returns nil for a proxy that there is nothing to write for. An
// error is one of ErrDenied, ErrMissing and ErrTooMany, with the reason.
func (r *Registry) Connect(ctx context.Context, m Machine) (*Connection, error) {
	if m.Group != "" && !r.o.Registers || m.Group == "" && (m.Entry == "" || !r.o.TakesHealth) {
		return nil, nil
	}
	if err := m.check(); err != nil {
		return nil, r.denied(fmt.Errorf("%w: %w", ErrDenied, err))
	}
	c := &Connection{registry: r, key: m.key()}
	outcome, err := r.add(c, m)
	if err != nil {
		return nil, r.denied(err)
	}
	r.queue.Add(c.key)
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case err = <-outcome:
	case <-limit.C:
	case <-ctx.Done():
	}
	if isFinal(err) {
		c.Disconnect()
		return nil, r.denied(err)
	}
	return c, nil
}

func (r *Registry) denied(err error) error {
	r.o.Metrics.Errors.Inc()
	return err
}

func isFinal(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ErrMissing) || errors.Is(err, ErrTooMany)
}

func (r *Registry) add(c *Connection, m Machine) (<-chan error, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.records[c.key]
	if rec == nil {
		if r.accounts[accountOf(m)] >= perAccount {
			return nil, fmt.Errorf("%w: %d of the service account %s are kept already", ErrTooMany, perAccount,
				accountOf(m))
		}
		rec = &record{connections: map[*Connection]struct{}{}}
		r.keep(c.key, rec, m)
	} else if accountOf(rec.machine) != accountOf(m) {
		return nil, fmt.Errorf("%w: WorkloadEntry %s is that of a proxy of the service account %s", ErrDenied, c.key,
			accountOf(rec.machine))
	}
	rec.machine, rec.heir = m, ""
	rec.connections[c] = struct{}{}
	rec.connectedAt, rec.disconnectedAt = r.o.Now(), time.Time{}
	outcome := make(chan error, 1)
	rec.waiting = append(rec.waiting, outcome)
	return outcome, nil
}

// keep adds a record. The caller holds mu.
func (r *Registry) keep(key types.NamespacedName, rec *record, m Machine) {
	rec.machine = m
	r.records[key] = rec
	r.accounts[accountOf(m)]++
}

// forget removes a record, unless its proxy is connected again.
func (r *Registry) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.records[key]
	if rec == nil || len(rec.connections) > 0 {
		return
	}
	delete(r.records, key)
	account := accountOf(rec.machine)
	if r.accounts[account]--; r.accounts[account] <= 0 {
		delete(r.accounts, account)
	}
}

func accountOf(m Machine) types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Account}
}

// Disconnect records that the stream has ended. It may be called on nil, and more than once.
func (c *Connection) Disconnect() {
	if c == nil {
		return
	}
	r := c.registry
	r.mu.Lock()
	rec := r.records[c.key]
	_, known := rec.of(c)
	if known {
		if delete(rec.connections, c); len(rec.connections) == 0 {
			rec.disconnectedAt = r.o.Now()
		}
	}
	r.mu.Unlock()
	if known {
		r.queue.Add(c.key)
	}
}

// of returns whether a connection is one of the record's, which may be nil.
func (rec *record) of(c *Connection) (*record, bool) {
	if rec == nil {
		return nil, false
	}
	_, ok := rec.connections[c]
	return rec, ok
}

// Report records the health of the workload. It reports false where there is no entry that it could
// go into.
func (c *Connection) Report(h Health) bool {
	if c == nil || !c.registry.o.TakesHealth {
		return false
	}
	r := c.registry
	h.at, h.Message = r.o.Now(), truncated(h.Message)
	r.mu.Lock()
	rec, known := r.records[c.key].of(c)
	if known {
		rec.health = &h
	}
	r.mu.Unlock()
	if known {
		r.queue.Add(c.key)
	}
	return known
}

func truncated(message string) string {
	if len(message) <= longestMessage {
		return message
	}
	return string([]rune(message[:longestMessage-len("…")-3])) + "…"
}

// Run writes until ctx ends.
func (r *Registry) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, r.queue.ShutDown)
	defer stop()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for r.handleNext(ctx) {
			}
		})
	}
	running.Go(func() { r.sweepAlways(ctx, false) })
	running.Wait()
}

// handleNext handles the next entry of the queue. It reports false once the queue is shut down.
func (r *Registry) handleNext(ctx context.Context) bool {
	key, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(key)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	rec, waiting := r.take(key)
	if rec == nil {
		r.queue.Forget(key)
		return true
	}
	again, err := r.reconcile(ctx, key, *rec)
	for _, w := range waiting {
		w <- err
	}
	switch {
	case err == nil && again > 0:
		r.queue.Forget(key)
		r.queue.AddAfter(key, again)
	case err == nil:
		r.queue.Forget(key)
	case isFinal(err):
		r.queue.Forget(key) // the sweep looks again
		r.o.Log.Warn("a machine is not registered", "entry", key, "error", err)
	default:
		r.o.Metrics.Errors.Inc()
		r.o.Log.Warn("a machine's WorkloadEntry is not as it should be; trying again", "entry", key, "error", err)
		r.queue.AddRateLimited(key)
	}
	return true
}

// take returns a copy of a record, and those who wait for it.
func (r *Registry) take(key types.NamespacedName) (*record, []chan error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.records[key]
	if rec == nil {
		return nil, nil
	}
	waiting := rec.waiting
	rec.waiting = nil
	c := *rec
	c.connections = maps.Clone(rec.connections)
	return &c, waiting
}
