package link

import (
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/local"
	"github.com/lateen-mesh/lateen/internal/source"
)

// answerTimeout limits the work on one question. By then the asker has asked again or given up.
const answerTimeout = 30 * time.Second

// ErrEnded means that the mesh has ended, which the control plane works for.
var ErrEnded = errors.New("the mesh has ended")

// Source is the control plane's end. It implements source.Source and runs once.
type Source struct {
	// Settled returns which proxies have accepted all that was delivered before.
	Settled func(ctx context.Context) (proxies []string, err error)

	conn   net.Conn
	tokens *local.Tokens
	asked  sync.WaitGroup

	mu  sync.Mutex // guards out
	out *json.Encoder
}

// Open takes the control plane's end of a connection that Relay.Connect made, and closes the file.
// It keeps tokens as the mesh has them.
func Open(f *os.File, tokens *local.Tokens) (*Source, error) {
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return &Source{conn: conn, tokens: tokens, out: json.NewEncoder(conn)}, f.Close()
}

// Run implements source.Source. It returns ErrEnded when the mesh ends.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	defer s.asked.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = s.conn.Close() })()
	defer func() { _ = s.conn.Close() }()
	in := gob.NewDecoder(s.conn)
	var d delivery
	for {
		d.reset()
		if err := in.Decode(&d); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return ErrEnded
		}
		if err := s.take(ctx, &d, sink); err != nil {
			return err
		}
	}
}

func (s *Source) take(ctx context.Context, d *delivery, sink source.Sink) error {
	if d.Tokens != nil {
		s.tokens.Learn(d.Tokens)
	}
	e, err := d.event(time.Now())
	if err != nil {
		return err
	}
	if len(e.Changes) > 0 || len(e.Reports) > 0 || e.Synced {
		sink(e)
	}
	for _, number := range d.Ask {
		s.asked.Go(func() { s.answer(ctx, number) })
	}
	return nil
}

// answer answers one question. A question that it cannot finish is left to the next control plane.
func (s *Source) answer(ctx context.Context, number uint64) {
	within, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	r := reply{Answer: number}
	var err error
	if r.Proxies, err = s.Settled(within); err != nil {
		r.Error = err.Error()
	}
	if ctx.Err() == nil {
		_ = s.send(r) // the reader sees the end of the line
	}
}

// Send sends news as JSON. It waits until the mesh reads them, and fails if the mesh has ended.
func (s *Source) Send(news any) error {
	encoded, err := json.Marshal(news)
	if err != nil {
		return err
	}
	return s.send(reply{News: encoded})
}

func (s *Source) send(r reply) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Encode(r)
}
