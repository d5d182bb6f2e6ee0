package link

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Relay is the mesh's end. It keeps everything that was delivered, for the next control plane. Its
// methods are safe for concurrent use.
type Relay struct {
	tokens  *local.Tokens
	news    func(json.RawMessage)
	log     *slog.Logger
	workers sync.WaitGroup

	mu        sync.Mutex
	all       batch
	questions map[uint64]chan reply // those that wait for an answer, by number
	asked     uint64
	current   *connection // nil: nobody is connected
	closed    bool
}

// connection is one connected control plane.
type connection struct {
	conn net.Conn
	// pending and ask are guarded by the Relay's lock. They hold the latest of each object: a
	// control plane that reads slowly gets one delivery with all of it.
	pending batch
	ask     []uint64
	// wake holds one signal that something is pending.
	wake chan struct{}
	done chan struct{} // closed when the other end has gone
}

// NewRelay returns a relay without a connection. news is called with the control plane's news, one
// at a time.
func NewRelay(tokens *local.Tokens, news func(json.RawMessage), log *slog.Logger) *Relay {
	return &Relay{tokens: tokens, news: news, log: log, all: newBatch(), questions: map[uint64]chan reply{}}
}

// Deliver takes an event of the runtime. It implements source.Sink and never blocks.
func (r *Relay) Deliver(e source.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.add(e)
	r.all.forget(e)
	if r.current != nil {
		r.current.pending.add(e)
		r.current.signal()
	}
}

// Settled returns once the control plane has answered which proxies have accepted all that was
// delivered before. If the control plane dies meanwhile, the next one is asked.
func (r *Relay) Settled(ctx context.Context) (proxies []string, err error) {
	answer := make(chan reply, 1)
	r.mu.Lock()
	r.asked++
	number := r.asked
	r.questions[number] = answer
	if r.current != nil {
		r.current.ask = append(r.current.ask, number)
		r.current.signal()
	}
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.questions, number)
	}()
	select {
	case a := <-answer:
		if a.Error != "" {
			return nil, errors.New(a.Error)
		}
		return a.Proxies, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Connect replaces the connection by a new one, and returns the control plane's end of it, for
// Open.
func (r *Relay) Connect() (*os.File, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(ours)
	_ = ours.Close() // conn has a descriptor of its own
	if err != nil {
		_ = theirs.Close()
		return nil, err
	}
	l := &connection{conn: conn, wake: make(chan struct{}, 1), done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close(), theirs.Close())
	}
	if r.current != nil {
		_ = r.current.conn.Close() // its goroutines see it
	}
	l.pending, l.ask = r.all.clone(), slices.Sorted(maps.Keys(r.questions))
	r.current = l
	l.signal()
	r.workers.Go(func() { r.write(l) })
	r.workers.Go(func() { r.read(l) })
	return theirs, nil
}

// socketPair returns two connected sockets that no process inherits by accident.
func socketPair() (a, b *os.File, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "link"), os.NewFile(uintptr(fds[1]), "link"), nil
}

// Close ends the connection and waits for its goroutines.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	if r.current != nil {
		_ = r.current.conn.Close()
	}
	r.mu.Unlock()
	r.workers.Wait()
}

func (l *connection) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write sends what is pending until the connection ends.
func (r *Relay) write(l *connection) {
	out := gob.NewEncoder(l.conn)
	var sent uint64 // version of the tokens
	for {
		select {
		case <-l.done:
			return
		case <-l.wake:
		}
		pending, ask := r.take(l)
		for d, err := range pending.deliveries(ask) {
			if err != nil { // no object of a manifest is like that
				r.log.Error("what changed cannot be told to the control plane", "error", err)
				break
			}
			// A pod's token is older than the pod's first event, so it is among these.
			if known, version := r.tokens.Known(); version != sent {
				d.Tokens, sent = known, version
			}
			if err := out.Encode(d); err != nil {
				return // the reader sees it too
			}
		}
	}
}

// take returns what is pending and empties it.
func (r *Relay) take(l *connection) (pending batch, ask []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending, ask = l.pending, l.ask
	l.pending, l.ask = newBatch(), nil
	return pending, ask
}

// read takes answers and news until the connection ends.
func (r *Relay) read(l *connection) {
	defer close(l.done)
	defer func() { _ = l.conn.Close() }()
	in := json.NewDecoder(l.conn)
	for {
		var got reply
		if err := in.Decode(&got); err != nil {
			r.detach(l)
			return
		}
		if got.News != nil {
			r.news(got.News)
			continue
		}
		r.mu.Lock()
		if answer := r.questions[got.Answer]; answer != nil {
			answer <- got
			delete(r.questions, got.Answer)
		}
		r.mu.Unlock()
	}
}

func (r *Relay) detach(l *connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == l {
		r.current = nil
	}
}
