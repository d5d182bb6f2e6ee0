package dns

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lateen-mesh/lateen/internal/agent/metrics"
	"github.com/lateen-mesh/lateen/internal/xds/nametable"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// resolver is one of the Pod's, on both transports of one port.
func resolver(t *testing.T, answer dns.HandlerFunc) string {
	t.Helper()
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	packets, err := net.ListenPacket("udp", streams.Addr().String())
	require.NoError(t, err)
	for _, server := range []*dns.Server{{Listener: streams, Handler: answer}, {PacketConn: packets, Handler: answer}} {
		begun := make(chan struct{})
		server.NotifyStartedFunc = func() { close(begun) }
		done := make(chan error, 1)
		go func() { done <- server.ActivateAndServe() }()
		<-begun
		t.Cleanup(func() {
			require.NoError(t, server.Shutdown())
			require.NoError(t, <-done)
		})
	}
	return streams.Addr().String()
}

// says answers each question with one text record.
func says(text string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		reply := new(dns.Msg).SetReply(q)
		reply.Answer = []dns.RR{&dns.TXT{
			Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET},
			Txt: []string{text},
		}}
		_ = w.WriteMsg(reply)
	}
}

func silent(dns.ResponseWriter, *dns.Msg) {}

func code(rcode int) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(q, rcode)) }
}

// running starts a proxy and returns it with its options.
func running(t *testing.T, change func(*Options)) (*Server, Options) {
	t.Helper()
	table := sampleTable()
	o := Options{
		Table: table, Metrics: NewMetrics(&metrics.Registry{}, table), Address: "localhost:0",
		Namespace: "default", Domain: "default.svc.cluster.local", Timeout: 5 * time.Second,
		Resolvers: Resolvers{Search: []string{"default.svc.cluster.local", "svc.cluster.local"}},
	}
	if change != nil {
		change(&o)
	}
	s, err := Listen(o)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return s, o
}

func ask(t *testing.T, s *Server, network, name string, qtype uint16) *dns.Msg {
	t.Helper()
	client := dns.Client{Net: network, Timeout: 10 * time.Second}
	reply, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, qtype), s.Address().String())
	require.NoError(t, err)
	return reply
}

func answers(reply *dns.Msg) []string {
	list := []string{}
	for _, rr := range reply.Answer {
		list = append(list, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	return list
}

func TestKnownNamesAreAnsweredFromTheTable(t *testing.T) {
	s, _ := running(t, nil)
	for _, network := range []string{"udp", "tcp"} {
		require.Equal(t, []string{"Reviews.default. 30 IN A 10.0.0.1"},
			answers(ask(t, s, network, "Reviews.default.", dns.TypeA)), "in the letters of the question")
		require.Equal(t, []string{"api.example.com. 30 IN AAAA 2001:2::7"},
			answers(ask(t, s, network, "api.example.com.", dns.TypeAAAA)))
		require.Equal(t, []string{
			"api.example.com.default.svc.cluster.local. 30 IN CNAME api.example.com.",
			"api.example.com. 30 IN A 240.240.0.7",
		}, answers(ask(t, s, network, "api.example.com.default.svc.cluster.local.", dns.TypeA)))
	}
}

func TestANameWithoutTheFamilyExistsAndHasNoAnswer(t *testing.T) {
	s, _ := running(t, nil)
	for _, name := range []string{"reviews.", "ratings.shop.default.svc.cluster.local."} {
		reply := ask(t, s, "udp", name, dns.TypeAAAA)
		require.Equal(t, dns.RcodeSuccess, reply.Rcode)
		require.True(t, reply.Authoritative)
		require.Empty(t, reply.Answer)
	}
}

func TestEachAddressComesFirstAtTimes(t *testing.T) {
	s, _ := running(t, nil)
	first := map[string]bool{}
	for range 200 { // each misses one in 2^199
		reply := ask(t, s, "udp", "db.", dns.TypeA)
		require.Len(t, reply.Answer, 2)
		if first[reply.Answer[0].(*dns.A).A.String()] = true; len(first) == 2 {
			return
		}
	}
	t.Fatalf("only %v came first", first)
}

func TestLongAnswersAreCutOverUDPAndWholeOverTCP(t *testing.T) {
	s, o := running(t, nil)
	var many []string
	for i := range 200 {
		many = append(many, net.IPv4(10, 2, 0, byte(i)).String())
	}
	o.Table.Replace([]nametable.Name{external("many.test", many...)})
	short := ask(t, s, "udp", "many.test.", dns.TypeA)
	require.True(t, short.Truncated)
	require.Less(t, len(short.Answer), 50)
	require.Len(t, ask(t, s, "tcp", "many.test.", dns.TypeA).Answer, 200)

	large := new(dns.Msg).SetQuestion("many.test.", dns.TypeA).SetEdns0(4096, false)
	reply, _, err := (&dns.Client{UDPSize: 4096}).Exchange(large, s.Address().String())
	require.NoError(t, err)
	require.Len(t, reply.Answer, 200)
	require.NotNil(t, reply.IsEdns0())
}

func TestOtherQuestionsGoToTheResolvers(t *testing.T) {
	s, o := running(t, func(o *Options) {
		o.Resolvers.Servers = []string{resolver(t, says("first")), resolver(t, says("second"))}
	})
	for _, network := range []string{"udp", "tcp"} {
		got := answers(ask(t, s, network, "other.test.", dns.TypeA))
		require.Equal(t, []string{`other.test. 0 IN TXT "first"`}, got)
		got = answers(ask(t, s, network, "reviews.", dns.TypeTXT))
		require.Equal(t, []string{`reviews. 0 IN TXT "first"`}, got)
	}
	require.Equal(t, uint64(4), o.Metrics.Forwarded.Value())
	require.Equal(t, uint64(4), o.Metrics.Requests.Value())
	require.Zero(t, o.Metrics.Failures.Value())
}

func TestTheNextResolverIsAskedWhenOneDoesNotAnswer(t *testing.T) {
	for what, first := range map[string]dns.HandlerFunc{
		"silent": silent, "failing": code(dns.RcodeServerFailure),
		"another question": func(w dns.ResponseWriter, q *dns.Msg) {
			reply := new(dns.Msg).SetReply(q)
			reply.Question[0].Name = "forged.test."
			_ = w.WriteMsg(reply)
		},
	} {
		for _, parallel := range []bool{false, true} {
			t.Run(what, func(t *testing.T) {
				s, _ := running(t, func(o *Options) {
					o.Resolvers.Servers = []string{resolver(t, first), resolver(t, says("second"))}
					o.Parallel, o.Timeout = parallel, 4*time.Second // the first may take half of it
				})
				got := answers(ask(t, s, "udp", "other.test.", dns.TypeA))
				require.Equal(t, []string{`other.test. 0 IN TXT "second"`}, got)
			})
		}
	}
}

func TestAnswersOfResolversAreTakenAsTheyAre(t *testing.T) {
	s, _ := running(t, func(o *Options) {
		o.Resolvers.Servers = []string{resolver(t, code(dns.RcodeNameError)), resolver(t, says("second"))}
	})
	require.Equal(t, dns.RcodeNameError, ask(t, s, "udp", "other.test.", dns.TypeA).Rcode)
}

func TestATruncatedAnswerOfAResolverIsAskedForOverTCP(t *testing.T) {
	long := strings.Repeat("x", 200)
	s, _ := running(t, func(o *Options) {
		o.Resolvers.Servers = []string{resolver(t, func(w dns.ResponseWriter, q *dns.Msg) {
			reply := new(dns.Msg).SetReply(q)
			if _, isUDP := w.RemoteAddr().(*net.UDPAddr); isUDP {
				reply.Truncated = true
				_ = w.WriteMsg(reply)
				return
			}
			says(long)(w, q)
		})}
	})
	got := answers(ask(t, s, "udp", "other.test.", dns.TypeTXT))
	require.Equal(t, []string{`other.test. 0 IN TXT "` + long + `"`}, got)
}

func TestWithoutAnAnswerTheServerFails(t *testing.T) {
	s, o := running(t, func(o *Options) { o.Timeout = 50 * time.Millisecond })
	require.Equal(t, dns.RcodeServerFailure, ask(t, s, "udp", "other.test.", dns.TypeA).Rcode)
	require.Equal(t, uint64(1), o.Metrics.Failures.Value())

	s, o = running(t, func(o *Options) {
		o.Resolvers.Servers, o.Timeout = []string{resolver(t, silent), resolver(t, silent)}, 50*time.Millisecond
	})
	require.Equal(t, dns.RcodeServerFailure, ask(t, s, "tcp", "other.test.", dns.TypeA).Rcode)
	require.Equal(t, uint64(1), o.Metrics.Failures.Value())
}

// A resolver might say that a name of the mesh does not exist.
func TestNothingIsAskedBeforeTheTableIsThere(t *testing.T) {
	var asked atomic.Int32
	s, o := running(t, func(o *Options) {
		o.Table = NewTable()
		o.Resolvers.Servers = []string{resolver(t, func(w dns.ResponseWriter, q *dns.Msg) {
			asked.Add(1)
			code(dns.RcodeNameError)(w, q)
		})}
	})
	require.Equal(t, dns.RcodeServerFailure, ask(t, s, "udp", "reviews.", dns.TypeA).Rcode)
	require.Zero(t, asked.Load())
	o.Table.Replace(nil)
	require.Equal(t, dns.RcodeNameError, ask(t, s, "udp", "reviews.", dns.TypeA).Rcode)
}

func TestTooManyQuestionsAreRefusedAtOnce(t *testing.T) {
	waiting, release := make(chan struct{}, 1), make(chan struct{})
	s, o := running(t, func(o *Options) {
		o.Resolvers.Servers = []string{resolver(t, func(w dns.ResponseWriter, q *dns.Msg) {
			waiting <- struct{}{}
			<-release
			says("late")(w, q)
		})}
	})
	s.forward.places <- struct{}{} // all but one are taken
	for len(s.forward.places) < maxForwarded-1 {
		s.forward.places <- struct{}{}
	}
	late := make(chan *dns.Msg, 1)
	go func() { late <- s.reply(t.Context(), new(dns.Msg).SetQuestion("other.test.", dns.TypeTXT)) }()
	<-waiting
	require.Equal(t, dns.RcodeServerFailure, ask(t, s, "udp", "other.test.", dns.TypeA).Rcode)
	require.Equal(t, uint64(1), o.Metrics.Refused.Value())
	require.Len(t, ask(t, s, "udp", "reviews.", dns.TypeA).Answer, 1, "the table answers all the same")
	close(release)
	require.Equal(t, []string{`other.test. 0 IN TXT "late"`}, answers(<-late))
}

func TestAddressesFollowTheFamiliesOfTheResolvers(t *testing.T) {
	for _, c := range []struct {
		address string
		servers []string
		want    []string
	}{
		{"localhost:15053", []string{"10.0.0.10:53"}, []string{"127.0.0.1:15053"}},
		{"localhost:15053", []string{"[fd00::a]:53"}, []string{"[::1]:15053"}},
		{"localhost:15053", []string{"10.0.0.10:53", "[fd00::a]:53"}, []string{"127.0.0.1:15053", "[::1]:15053"}},
		{"localhost:15053", nil, []string{"127.0.0.1:15053"}},
		{"10.0.0.1:53", []string{"[fd00::a]:53"}, []string{"10.0.0.1:53"}},
	} {
		o := Options{Address: c.address, Resolvers: Resolvers{Servers: c.servers}}
		got, err := o.addresses()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
	for _, wrong := range []string{"localhost", "localhost:x", "", "1.2.3.4:70000"} {
		_, err := (&Options{Address: wrong}).addresses()
		require.ErrorContains(t, err, `want host:port, as "localhost:15053"`)
		_, err = Listen(Options{Address: wrong})
		require.Error(t, err)
	}
}

func TestResolvConfSaysResolversAndSearchDomains(t *testing.T) {
	const file = "search a.test b.test\nnameserver 10.0.0.10\nnameserver fd00::a\noptions ndots:5\n"
	r, err := ReadResolvers(strings.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, Resolvers{
		Servers: []string{"10.0.0.10:53", "[fd00::a]:53"},
		Search:  []string{"a.test", "b.test"},
	}, r)
}

func FuzzReply(f *testing.F) {
	for _, name := range []string{"reviews.", "x.example.com.default.svc.cluster.local.", ".", "db-0.db."} {
		packed, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		require.NoError(f, err)
		f.Add(packed)
	}
	table := sampleTable()
	s := &Server{table: table, names: inDefault, forward: &forwarder{
		timeout: time.Second, places: make(chan struct{}, 1), metrics: NewMetrics(&metrics.Registry{}, table),
	}}
	f.Fuzz(func(t *testing.T, packed []byte) {
		query := new(dns.Msg)
		if query.Unpack(packed) != nil {
			return
		}
		reply := s.reply(t.Context(), query)
		require.Equal(t, query.Id, reply.Id)
		reply.Truncate(sizeFor(query, true))
		_, err := reply.Pack()
		require.NoError(t, err)
	})
}

func FuzzReadResolvers(f *testing.F) {
	f.Add("search a.test\nnameserver 10.0.0.10\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ReadResolvers(strings.NewReader(text))
		if err == nil {
			o := Options{Address: DefaultAddress, Resolvers: r}
			_, err := o.addresses()
			require.NoError(t, err)
			_ = o.names()
		}
	})
}
