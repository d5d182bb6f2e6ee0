package dns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// ttl is how long clients may keep an answer, in seconds. It is short, so that they follow changes
// of the table, as with Istio.
const ttl = 30

const (
	maxConnections = 128 // TCP connections at a time; more wait in the backlog
	idleTimeout    = 10 * time.Second
)

// Server answers DNS.
type Server struct {
	table   *Table
	metrics *Metrics
	names   names
	forward *forwarder
	sockets []socket
}

// socket is where questions come in: one of the two is set.
type socket struct {
	packets net.PacketConn
	streams net.Listener
}

// Listen opens the sockets of a server. Run serves them.
func Listen(o Options) (*Server, error) {
	addresses, err := o.addresses()
	if err != nil {
		return nil, err
	}
	s := &Server{table: o.Table, metrics: o.Metrics, names: o.names(), forward: &forwarder{
		servers:  o.Resolvers.Servers,
		timeout:  o.Timeout,
		parallel: o.Parallel,
		places:   make(chan struct{}, maxForwarded),
		metrics:  o.Metrics,
	}}
	for _, address := range addresses {
		if err := s.listen(address); err != nil {
			s.Close()
			return nil, fmt.Errorf("DNS proxy: %w", err)
		}
	}
	return s, nil
}

// listen opens the two sockets of an address. With port 0 both get the same port.
func (s *Server) listen(address string) error {
	streams, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	s.sockets = append(s.sockets, socket{streams: netutil.LimitListener(streams, maxConnections)})
	packets, err := net.ListenPacket("udp", streams.Addr().String())
	if err != nil {
		return err
	}
	s.sockets = append(s.sockets, socket{packets: packets})
	return nil
}

// Address returns the first address that the server listens on.
func (s *Server) Address() netip.AddrPort {
	return s.sockets[0].streams.Addr().(*net.TCPAddr).AddrPort()
}

// Close closes the sockets of a server that does not run.
func (s *Server) Close() {
	for _, at := range s.sockets {
		if at.streams != nil {
			_ = at.streams.Close() // nothing was sent
		} else {
			_ = at.packets.Close()
		}
	}
}

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	for _, at := range s.sockets {
		server := &dns.Server{
			Listener:    at.streams,
			PacketConn:  at.packets,
			Handler:     dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { s.serve(ctx, w, q) }),
			IdleTimeout: func() time.Duration { return idleTimeout },
			ReadTimeout: idleTimeout,
		}
		running.Go(server.ActivateAndServe)
		running.Go(func() error {
			<-ctx.Done()
			s.Close() // whether the server has started or not; a question in hand gets no answer
			return ctx.Err()
		})
	}
	if err := running.Wait(); !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("DNS proxy: %w", err)
	}
	return nil
}

// serve answers one question.
func (s *Server) serve(ctx context.Context, w dns.ResponseWriter, query *dns.Msg) {
	s.metrics.Requests.Inc()
	reply := s.reply(ctx, query)
	_, isUDP := w.RemoteAddr().(*net.UDPAddr)
	reply.Compress = true
	reply.Truncate(sizeFor(query, isUDP))
	_ = w.WriteMsg(reply) // whoever asked may have gone
}

// reply returns the answer to a question: of the table if it knows the name, else of resolvers.
func (s *Server) reply(ctx context.Context, query *dns.Msg) *dns.Msg {
	failed := new(dns.Msg).SetRcode(query, dns.RcodeServerFailure)
	if len(query.Question) != 1 {
		return new(dns.Msg).SetRcode(query, dns.RcodeFormatError)
	}
	if !s.table.Ready() { // a resolver might say that a name of the mesh does not exist
		return failed
	}
	q := query.Question[0]
	if q.Qclass == dns.ClassINET && (q.Qtype == dns.TypeA || q.Qtype == dns.TypeAAAA) {
		if to, known := s.table.lookup(keyOf(q.Name), &s.names); known {
			return answer(query, to)
		}
	}
	reply, err := s.forward.ask(ctx, query)
	if err != nil {
		return failed
	}
	return reply
}

// answer makes the answer of a name that the table knows. One without an address of the family that
// was asked for exists all the same: the answer is empty, and not that there is no such name.
func answer(query *dns.Msg, to found) *dns.Msg {
	reply := new(dns.Msg).SetReply(query)
	reply.Authoritative = true
	q := query.Question[0]
	header := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: ttl}
	addresses := to.v4
	if q.Qtype == dns.TypeAAAA {
		addresses = to.v6
	}
	if to.alias != "" && len(addresses) > 0 {
		target := dns.Fqdn(to.alias)
		named := header
		named.Rrtype = dns.TypeCNAME
		reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: named, Target: target})
		header.Name = target
	}
	if query.IsEdns0() != nil {
		reply.SetEdns0(dns.DefaultMsgSize, false)
	}
	for _, ip := range shuffled(addresses) {
		if ip.Is4() {
			reply.Answer = append(reply.Answer, &dns.A{Hdr: header, A: ip.AsSlice()})
		} else {
			reply.Answer = append(reply.Answer, &dns.AAAA{Hdr: header, AAAA: ip.AsSlice()})
		}
	}
	return reply
}

// shuffled returns the addresses in a random order: most clients take the first one.
func shuffled(addresses []netip.Addr) []netip.Addr {
	if len(addresses) < 2 {
		return addresses
	}
	mixed := slices.Clone(addresses)
	rand.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	return mixed
}

// sizeFor returns how long an answer may be.
func sizeFor(query *dns.Msg, isUDP bool) int {
	if !isUDP {
		return dns.MaxMsgSize
	}
	if edns := query.IsEdns0(); edns != nil {
		return max(int(edns.UDPSize()), dns.MinMsgSize)
	}
	return dns.MinMsgSize
}
