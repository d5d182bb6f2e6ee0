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

// answerWithin bounds how long a question is worked on: who asked asks again, or has given up by
// then.
const answerWithin = 30 * time.Second

// ErrEnded says that the mesh has gone, and with it what a control plane works for.
var ErrEnded = errors.New("the mesh has ended")

// Source is the control plane's end. It implements source.Source and runs once.
type Source struct {
	// Settled answers which proxies have accepted all that was delivered before.
	Settled func(ctx context.Context) (proxies []string, err error)

	conn   net.Conn
	tokens *local.Tokens
	asked  sync.WaitGroup

	mu  sync.Mutex // guards out
	out *json.Encoder
}

// Open takes the end of a line that Relay.Connect has made, and closes the file. The tokens are
// kept as the mesh has them.
func Open(f *os.File, tokens *local.Tokens) (*Source, error) {
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return &Source{conn: conn, tokens: tokens, out: json.NewEncoder(conn)}, f.Close()
}

// Run implements source.Source. The end of the mesh is the error ErrEnded.
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

// answer leaves a question that it cannot finish to the next control plane.
func (s *Source) answer(ctx context.Context, number uint64) {
	within, cancel := context.WithTimeout(ctx, answerWithin)
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

// Tell sends news, as JSON. It waits until the mesh takes them, and fails when that has gone.
func (s *Source) Tell(news any) error {
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
