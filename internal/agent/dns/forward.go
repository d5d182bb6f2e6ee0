package dns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// maxForwarded is how many questions may wait for resolvers at a time. Each holds a socket and a
// few kilobytes. One more is answered with SERVFAIL at once, as an overloaded resolver does.
const maxForwarded = 256

// forwarder asks the resolvers of the Pod.
type forwarder struct {
	servers  []string // host:port, in the order of resolv.conf
	timeout  time.Duration
	parallel bool
	places   chan struct{}
	metrics  *Metrics
}

var (
	errBusy      = errors.New("too many questions wait for resolvers")
	errNoServers = errors.New("there is no resolver to ask")
	errForeign   = errors.New("the answer is to another question")
)

// ask returns the answer of a resolver to a question. The answer has the question's id.
func (f *forwarder) ask(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	default:
		f.metrics.Refused.Inc()
		return nil, errBusy
	}
	f.metrics.Forwarded.Inc()
	began := time.Now()
	defer func() { f.metrics.Duration.Observe(time.Since(began).Seconds()) }()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	reply, err := f.askAny(ctx, query)
	if err != nil {
		f.metrics.Failures.Inc()
		return nil, err
	}
	reply.Id = query.Id
	return reply, nil
}

func (f *forwarder) askAny(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	switch {
	case len(f.servers) == 0:
		return nil, errNoServers
	case f.parallel:
		return f.askAll(ctx, query)
	}
	return f.askInTurn(ctx, query)
}

// askInTurn asks one resolver after the other until one answers. Each gets an equal share of the
// time that is left, so that one that is silent leaves some to the others. An answer that says only
// that the resolver could not answer counts if there is no other.
func (f *forwarder) askInTurn(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	var last *dns.Msg
	var problems []error
	for i, server := range f.servers {
		reply, err := f.askWithin(ctx, query, server, len(f.servers)-i)
		switch {
		case err != nil:
			problems = append(problems, err)
		case reply.Rcode != dns.RcodeServerFailure:
			return reply, nil
		default:
			last = reply
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, errors.Join(problems...)
}

// askWithin asks one resolver within its share of the time that is left.
func (f *forwarder) askWithin(ctx context.Context, query *dns.Msg, server string, shares int) (*dns.Msg, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
		defer cancel()
	}
	return exchange(ctx, query, server)
}

// askAll asks all resolvers at once and returns the first answer.
func (f *forwarder) askAll(ctx context.Context, query *dns.Msg) (*dns.Msg, error) {
	type result struct {
		reply *dns.Msg
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait() // they end with their context, so that the place of the question counts all
	defer cancel()
	results := make(chan result, len(f.servers))
	for _, server := range f.servers {
		asking.Go(func() {
			reply, err := exchange(ctx, query, server)
			results <- result{reply, err}
		})
	}
	var last *dns.Msg
	var problems []error
	for range f.servers {
		switch r := <-results; {
		case r.err != nil:
			problems = append(problems, r.err)
		case r.reply.Rcode != dns.RcodeServerFailure:
			return r.reply, nil
		default:
			last = r.reply
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, errors.Join(problems...)
}

// exchange asks one resolver over UDP, and over TCP if the answer does not fit.
func exchange(ctx context.Context, query *dns.Msg, server string) (*dns.Msg, error) {
	ask := *query
	ask.Id = dns.Id() // of our own: whoever asks may choose ids that can be guessed
	reply, err := exchangeOver(ctx, "udp", &ask, server)
	if err == nil && reply.Truncated {
		if whole, tcpErr := exchangeOver(ctx, "tcp", &ask, server); tcpErr == nil {
			return whole, nil
		}
	}
	return reply, err
}

func exchangeOver(ctx context.Context, network string, ask *dns.Msg, server string) (*dns.Msg, error) {
	client := dns.Client{Net: network, UDPSize: dns.DefaultMsgSize}
	if deadline, ok := ctx.Deadline(); ok {
		client.Timeout = time.Until(deadline)
	}
	conn, err := client.DialContext(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("%s over %s: %w", server, network, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends an exchange that nobody waits for
	defer func() {
		if stop() {
			_ = conn.Close() // the answer is there, or none will come
		}
	}()
	reply, _, err := client.ExchangeWithConnContext(ctx, ask, conn)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s over %s: %w", server, network, err)
	case len(reply.Question) != len(ask.Question) || len(ask.Question) > 0 && reply.Question[0] != ask.Question[0]:
		return nil, fmt.Errorf("%s over %s: %w", server, network, errForeign)
	}
	return reply, nil
}
