package leanproxy

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// patience is how long anything may take that should happen in a moment; on a busy machine moments
// are long.
const patience = 3 * time.Minute

// backoff is how long a proxy waits before it opens another stream.
const backoff = 100 * time.Millisecond

// Options say who connects to whom.
type Options struct {
	// Server is the xDS server's address, served in plaintext: "127.0.0.1:15010".
	Server string
	Node   *corev3.Node
}

// Client is a running proxy.
type Client struct {
	options Options
	bytes   atomic.Int64

	mu      sync.Mutex
	state   *State
	changed chan struct{} // closed and replaced with every change
}

// Start runs a proxy until the test ends.
func Start(t testing.TB, o Options) *Client {
	t.Helper()
	c := &Client{options: o, state: newState(), changed: make(chan struct{})}
	conn, err := grpc.NewClient("passthrough:///"+o.Server,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(c.dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.run(ctx, conn)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		_ = conn.Close()
	})
	return c
}

// Bytes is how many came over the proxy's connections, HTTP/2's framing included.
func (c *Client) Bytes() int64 { return c.bytes.Load() }

// Look lends the state to a function.
func (c *Client) Look(at func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at(c.state)
}

// Await waits until a condition holds.
func (c *Client) Await(t testing.TB, what string, condition func(*State) bool) {
	t.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		c.mu.Lock()
		holds, changed := condition(c.state), c.changed
		c.mu.Unlock()
		if holds {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("%s: waited %v in vain for %s", c.options.Node.GetId(), patience, what)
		}
	}
}

// AwaitSynced waits until the proxy has all that it asked for.
func (c *Client) AwaitSynced(t testing.TB) {
	t.Helper()
	c.Await(t, "a complete configuration", (*State).Synced)
}

// update changes the state and tells who waits.
func (c *Client) update(edit func(*State)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(c.state)
	close(c.changed)
	c.changed = make(chan struct{})
}

// run keeps a stream open until ctx ends.
func (c *Client) run(ctx context.Context, conn *grpc.ClientConn) {
	for {
		_ = c.stream(ctx, conn)
		c.update(func(s *State) { s.Connected = false })
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
		conn.ResetConnectBackoff()
	}
}

func (c *Client) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &counted{Conn: conn, read: &c.bytes}, nil
}

// counted counts what is read.
type counted struct {
	net.Conn
	read *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}
