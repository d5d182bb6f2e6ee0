package machines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// of its Pod, which is in Namespace.
	Controller, Namespace string
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
	// maxRefusals is how many refusals are remembered.
	maxRefusals = 4096
	// refusedFor is how long a proxy is told at once that it was refused, and how long until one
	// that is connected nevertheless is looked at again.
	refusedFor = 5 * time.Second
	// longestMessage is how many bytes of the reason are kept for which a workload is unhealthy.
	longestMessage = 1 << 10
	// workers is how many entries are written at a time.
	workers = 4
	// requestTimeout bounds what is asked of the API server for one entry.
	requestTimeout = 10 * time.Second
	// minRetry and maxRetry are the shortest and the longest backoff of an entry.
	minRetry, maxRetry = 100 * time.Millisecond, time.Minute
)

// Errors that say whose fault it is that a machine is not registered.
var (
	ErrDenied  = errors.New("the proxy may not register")
	ErrMissing = errors.New("the object that the proxy names is missing")
	ErrTooMany = errors.New("too many entries")
)

func isFinal(err error) bool {
	return errors.Is(err, ErrDenied) || errors.Is(err, ErrMissing) || errors.Is(err, ErrTooMany)
}

// Registry knows the machines whose proxies are connected to this replica.
type Registry struct {
	o        Options
	started  time.Time
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	logLimit observe.LogLimit

	mu       sync.Mutex
	records  map[types.NamespacedName]*record
	accounts map[types.NamespacedName]int // records of each service account
	refusals map[types.NamespacedName]refusal
}

// record is one entry, as it should be. Registry.mu guards it.
type record struct {
	machine     Machine
	connections map[*Connection]struct{}
	// connectedAt is when the last of the proxy's connections began, and disconnectedAt when it
	// ended; zero while there is one.
	connectedAt, disconnectedAt time.Time
	// accepted is set once the entry said that the proxy of this machine is connected here.
	accepted bool
	// heir is set if the entry is that of a process that is gone.
	heir   string
	health *Health // the last that was told; nil: none
}

// refusal is what the proxies of an account were told of an entry.
type refusal struct {
	account types.NamespacedName
	err     error
	until   time.Time
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
	end      func(error)
}

// New returns a Registry that writes once Run runs.
func New(o Options) *Registry {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](minRetry, maxRetry)
	return &Registry{
		o: o, started: o.Now(), queue: workqueue.NewTypedRateLimitingQueue(limiter),
		records: map[types.NamespacedName]*record{}, accounts: map[types.NamespacedName]int{},
		refusals: map[types.NamespacedName]refusal{},
	}
}

// Connect records that a machine's proxy is connected. Its entry follows. It returns nil for a
// proxy that there is nothing to write for. An error is one of ErrDenied, ErrMissing and
// ErrTooMany, with the reason; end is called with such an error if it shows later, and may be
// called again until the connection is disconnected. It must not block.
func (r *Registry) Connect(m Machine, end func(error)) (*Connection, error) {
	if m.Group != "" && !r.o.Registers || m.Group == "" && (m.Entry == "" || !r.o.TakesHealth) {
		return nil, nil
	}
	c := &Connection{registry: r, key: m.key(), end: end}
	err := m.check()
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrDenied, err)
	} else {
		var others []*Connection
		others, err = r.add(c, m)
		for _, other := range others {
			other.end(fmt.Errorf("%w: a proxy of another service account claims WorkloadEntry %s", ErrDenied, c.key))
		}
	}
	if err != nil {
		r.o.Metrics.Errors.Inc()
		return nil, err
	}
	r.queue.Add(c.key)
	return c, nil
}

// add adds a connection to its record. It returns the connections of a machine that it takes the
// place of, before that was accepted.
func (r *Registry) add(c *Connection, m Machine) (others []*Connection, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.o.Now()
	if told, ok := r.refusals[c.key]; ok && told.account == accountOf(m) && now.Before(told.until) {
		return nil, told.err
	}
	rec := r.records[c.key]
	switch {
	case rec == nil || !rec.isOf(m):
		if r.accounts[accountOf(m)] >= perAccount {
			return nil, fmt.Errorf("%w: %d of the service account %s are kept already", ErrTooMany, perAccount,
				accountOf(m))
		}
		if rec != nil { // whose machine was not accepted, or is gone
			others = slices.Collect(maps.Keys(rec.connections))
			r.drop(c.key, rec)
		}
		rec = &record{connections: map[*Connection]struct{}{}}
		r.keep(c.key, rec, m)
	case accountOf(rec.machine) != accountOf(m):
		return nil, fmt.Errorf("%w: WorkloadEntry %s is that of a proxy of the service account %s", ErrDenied, c.key,
			accountOf(rec.machine))
	}
	rec.machine = m
	rec.connections[c] = struct{}{}
	rec.connectedAt, rec.disconnectedAt = now, time.Time{}
	return others, nil
}

// isOf reports whether the record stays when a machine connects: that of another account does if
// its machine was accepted.
func (rec *record) isOf(m Machine) bool {
	return rec.heir == "" && (rec.accepted || accountOf(rec.machine) == accountOf(m))
}

// keep adds a record. The caller holds mu.
func (r *Registry) keep(key types.NamespacedName, rec *record, m Machine) {
	rec.machine = m
	r.records[key] = rec
	r.accounts[accountOf(m)]++
}

// drop removes a record. The caller holds mu.
func (r *Registry) drop(key types.NamespacedName, rec *record) {
	delete(r.records, key)
	account := accountOf(rec.machine)
	if r.accounts[account]--; r.accounts[account] <= 0 {
		delete(r.accounts, account)
	}
}

// forget removes a record, unless its proxy is connected again.
func (r *Registry) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.records[key]; rec != nil && len(rec.connections) == 0 {
		r.drop(key, rec)
	}
}

// accept records that the entry says that the proxy is connected here.
func (r *Registry) accept(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rec := r.records[key]; rec != nil && rec.disconnectedAt.IsZero() {
		rec.accepted = true
	}
}

func accountOf(m Machine) types.NamespacedName {
	return types.NamespacedName{Namespace: m.Namespace, Name: m.Account}
}

// refuse ends the connections of a record, and remembers why.
func (r *Registry) refuse(key types.NamespacedName, err error) {
	r.mu.Lock()
	rec := r.records[key]
	var ends []func(error)
	if rec != nil {
		for c := range rec.connections {
			ends = append(ends, c.end)
		}
		r.remember(key, refusal{account: accountOf(rec.machine), err: err, until: r.o.Now().Add(refusedFor)})
	}
	r.mu.Unlock()
	for _, end := range ends {
		end(err)
	}
	if skipped, ok := r.logLimit.Allow("refused", r.o.Now()); ok {
		r.o.Log.Warn("a machine is not registered", "entry", key, "error", err, "lines_left_out", skipped)
	}
	r.o.Metrics.Errors.Inc()
}

// remember keeps a refusal. The caller holds mu.
func (r *Registry) remember(key types.NamespacedName, told refusal) {
	if len(r.refusals) >= maxRefusals {
		now := r.o.Now()
		for k, old := range r.refusals {
			if !now.Before(old.until) {
				delete(r.refusals, k)
			}
		}
	}
	if len(r.refusals) < maxRefusals { // else the next stream is refused a moment later
		r.refusals[key] = told
	}
}

// Disconnect records that the stream has ended. It may be called on nil, and more than once.
func (c *Connection) Disconnect() {
	if c == nil {
		return
	}
	r := c.registry
	r.mu.Lock()
	rec := r.records[c.key]
	known := rec.has(c)
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

// has reports whether a connection is one of the record's, which may be nil.
func (rec *record) has(c *Connection) bool {
	if rec == nil {
		return false
	}
	_, ok := rec.connections[c]
	return ok
}

// Report records the health of the workload. It reports false where there is no entry that it could
// go into.
func (c *Connection) Report(h Health) bool {
	if c == nil || !c.registry.o.TakesHealth {
		return false
	}
	r := c.registry
	h.at, h.Message = r.o.Now(), observe.Untrusted(h.Message, longestMessage)
	r.mu.Lock()
	rec := r.records[c.key]
	known := rec.has(c)
	if known {
		rec.health = &h
	}
	r.mu.Unlock()
	if known {
		r.queue.Add(c.key)
	}
	return known
}
