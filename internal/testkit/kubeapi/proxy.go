package kubeapi

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// proxy stands between clients and the API server: its port is the one that clients know, whatever becomes of the server.
type proxy struct {
	port int

	mu          sync.Mutex
	listener    net.Listener // nil while closed: connections are refused
	backend     string
	latency     time.Duration
	connections map[net.Conn]bool
	running     sync.WaitGroup
}

// firstPort and ports bound where fixed ports are chosen: below the range from which the kernel takes the source ports of
// connections, so that nobody gets the port by chance while the proxy is closed.
const firstPort, ports = 20000, 12000

// freePort listens at a free port that will not be taken by chance when it is closed for a while.
func freePort() (net.Listener, error) {
	var err error
	for range 100 {
		var l net.Listener
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(ports)))
		if l, err = net.Listen("tcp", address); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("looking for a free port: %w", err)
}

func portOf(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// newProxy chooses a port and keeps it; it does not listen until open.
func newProxy() (*proxy, error) {
	l, err := freePort()
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	return &proxy{port: portOf(l), connections: map[net.Conn]bool{}}, nil
}

// open accepts connections and leads them to the backend, until close.
func (p *proxy) open(backend string) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)))
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
