package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/source"
)

// balancers are the load balancers that a cloud would provide for Services of type LoadBalancer.
// Each port of such a Service is open on 127.0.0.1, at an address that stays while gateway pods
// come and go. The loop's goroutine owns them.
type balancers struct {
	ctx       context.Context
	freePorts bool
	running   sync.WaitGroup
	byPort    map[balancerKey]*balancer
	problems  []source.Problem
}

type balancerKey struct {
	service source.Key
	port    int32
}

func newBalancers(ctx context.Context, freePorts bool) *balancers {
	return &balancers{ctx: ctx, freePorts: freePorts, byPort: map[balancerKey]*balancer{}}
}

// wait returns when all connections have ended. Their context must have ended before.
func (b *balancers) wait() { b.running.Wait() }

// balancer forwards connections to the ready endpoints of one port, round robin.
type balancer struct {
	info     LoadBalancer
	listener net.Listener
	stop     context.CancelFunc
	next     atomic.Uint32
	targets  atomic.Pointer[[]netip.AddrPort]
}

// syncBalancers opens and closes balancers according to the Services, and updates their targets.
func (l *loop) syncBalancers(backends map[string][]backend) {
	b := l.balancers
	b.problems = nil
	wanted := map[balancerKey]bool{}
	l.in.eachService(func(s *corev1.Service) {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return
		}
		service := source.Key{Kind: kinds.Service, Namespace: s.Namespace, Name: s.Name}
		for _, p := range s.Spec.Ports {
			if cmp.Or(p.Protocol, corev1.ProtocolTCP) != corev1.ProtocolTCP {
				continue
			}
			key := balancerKey{service: service, port: p.Port}
			wanted[key] = true
			if b.open(key, p, l.in.serviceOrigins[service]) {
				l.notify(Notice{Text: b.byPort[key].info.String() + " opens"})
			}
			if opened := b.byPort[key]; opened != nil {
				targets := readyTargets(s, p, backends[s.Namespace])
				opened.targets.Store(&targets)
			}
		}
	})
	for key, opened := range b.byPort {
		if !wanted[key] {
			opened.stop()
			delete(b.byPort, key)
			l.notify(Notice{Text: opened.info.String() + " closes"})
		}
	}
	if len(b.problems) > 0 {
		l.wakeAt(time.Now().Add(retryAfter)) // they are reported in that round, and the ports tried again
	}
}

func readyTargets(s *corev1.Service, p corev1.ServicePort, backends []backend) (out []netip.AddrPort) {
	for _, b := range backends {
		port, ok := targetPort(p, b.pod)
		if !ok || !b.ready || b.terminating || !selects(s, b.pod) || slices.Contains(b.closed, port) {
			continue
		}
		if addr, err := netip.ParseAddr(b.pod.Status.PodIP); err == nil {
			out = append(out, netip.AddrPortFrom(addr, uint16(port)))
		}
	}
	return out
}

// open listens for a port if nothing does yet, and reports whether it has begun to.
func (b *balancers) open(key balancerKey, p corev1.ServicePort, origin string) bool {
	if b.byPort[key] != nil {
		return false
	}
	listener, err := b.listen(p.Port)
	if err != nil {
		b.problems = append(b.problems, source.Problem{
			Severity: source.Warning,
			Object:   key.service,
			Origin:   origin,
			Path:     "spec.ports",
			Value:    fmt.Sprint(p.Port),
			Message:  "cannot be opened on this machine: " + err.Error(),
			Want:     wantPort,
		})
		return false
	}
	ctx, stop := context.WithCancel(b.ctx)
	opened := &balancer{
		listener: listener, stop: stop,
		info: LoadBalancer{
			Namespace: key.service.Namespace, Service: key.service.Name, Port: p.Name, HTTP: isHTTP(&p),
			Address: netip.MustParseAddrPort(listener.Addr().String()),
		},
	}
	opened.targets.Store(&[]netip.AddrPort{})
	b.byPort[key] = opened
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	b.running.Go(func() { opened.serve(ctx, &b.running) })
	return true
}

// wantPort is what would be right in place of a port that is taken.
const wantPort = "a port that no other program uses, or lateen up --free-ports, which takes free ones"

// listen opens a port. For a port that only root may open it tries the port 8000 higher, too.
func (b *balancers) listen(port int32) (net.Listener, error) {
	host := netip.MustParseAddr(hostIP)
	if b.freePorts {
		return listen(host, 0)
	}
	listener, err := listen(host, port)
	if errors.Is(err, syscall.EACCES) && port < 1024 {
		return listen(host, port+8000)
	}
	return listener, err
}

func (b *balancers) list() []LoadBalancer {
	var out []LoadBalancer
	for _, opened := range b.byPort {
		out = append(out, opened.info)
	}
	slices.SortFunc(out, func(a, b LoadBalancer) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service),
			a.Address.Compare(b.Address))
	})
	return out
}

// serve accepts connections until the context ends. It closes a connection if there is no ready
// endpoint.
func (b *balancer) serve(ctx context.Context, running *sync.WaitGroup) {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		running.Go(func() { b.forward(ctx, conn) })
	}
}

func (b *balancer) forward(ctx context.Context, client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := b.dial(ctx)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	unhook := context.AfterFunc(ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer unhook()
	var back sync.WaitGroup
	back.Go(func() { pipe(client, server) })
	pipe(server, client)
	back.Wait()
}

// dial tries the ready endpoints round robin.
func (b *balancer) dial(ctx context.Context) (net.Conn, error) {
	targets := *b.targets.Load()
	for range targets {
		target := targets[int(b.next.Add(1)-1)%len(targets)]
		var d net.Dialer
		if conn, err := d.DialContext(ctx, "tcp", target.String()); err == nil {
			return conn, nil
		}
	}
	return nil, errors.New("no ready endpoint")
}

// pipe copies until one side ends, and closes the other side for writing.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}
