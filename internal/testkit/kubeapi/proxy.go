package kubeapi

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/lateen-mesh/lateen/internal/perf/port"
)

// proxy stands between clients and the API server: its port is the one that clients know, whatever
// becomes of the server.
type proxy struct {
	port *port.Reservation

	mu          sync.Mutex
	listener    net.Listener // nil while closed: connections are refused
	backend     string
	latency     time.Duration
	connections map[net.Conn]bool
	running     sync.WaitGroup
}

// newProxy chooses a port and keeps it; it does not listen until open.
func newProxy() (*proxy, error) {
	h, err := port.Reserve()
	if err != nil {
		return nil, err
	}
	return &proxy{port: h, connections: map[net.Conn]bool{}}, nil
}

// open accepts connections and leads them to the backend, until close.
func (p *proxy) open(backend string) error {
	l, err := net.Listen("tcp", p.port.Address)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listener, p.backend = l, backend
	p.running.Go(func() { p.accept(l) })
	return nil
}

// close refuses new connections, breaks those there are, and waits until nothing of them is left.
func (p *proxy) close() {
	p.mu.Lock()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	p.mu.Unlock()
	p.sever()
	p.running.Wait()
}

// sever breaks all connections that there are now.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		_ = c.Close()
	}
}

// slow delays what the server says, in pieces of up to 32 KB, by latency each.
func (p *proxy) slow(latency time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latency = latency
}

func (p *proxy) accept(l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve leads one connection to the backend. When either direction ends, both do.
func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.backendAddress())
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if !p.register(client, server) {
		return
	}
	defer p.forget(client, server)
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	end := func() {
		cancel()
		_ = client.Close()
		_ = server.Close()
	}
	both.Go(func() {
		defer end()
		p.copy(ctx, server, client, func() time.Duration { return 0 })
	})
	both.Go(func() {
		defer end()
		p.copy(ctx, client, server, p.currentLatency)
	})
	both.Wait()
}

func (p *proxy) copy(ctx context.Context, to, from net.Conn, latency func() time.Duration) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if wait := latency(); n > 0 && wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// register notes a connection, unless the proxy was closed while it was made.
func (p *proxy) register(connections ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return false
	}
	for _, c := range connections {
		p.connections[c] = true
	}
	return true
}

func (p *proxy) forget(connections ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		delete(p.connections, c)
	}
}

func (p *proxy) backendAddress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.backend
}

func (p *proxy) currentLatency() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latency
}
