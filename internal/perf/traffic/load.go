package traffic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// Load says which requests are sent.
type Load struct {
	Target Target
	// QPS is how many requests are sent a second over all connections. 0 means as many as get
	// answers: each connection sends its next request when it has an answer.
	QPS         float64
	Connections int
	Duration    time.Duration
	// Label names the result in Fortio's report browser.
	Label string
}

// Validate reports what is wrong with a load.
func (l Load) Validate() error {
	switch {
	case l.Connections < 1:
		return fmt.Errorf("connections %d: want 1 or more", l.Connections)
	case l.QPS < 0:
		return fmt.Errorf("qps %v: want 0 (as many as possible) or more", l.QPS)
	case l.Duration <= 0:
		return fmt.Errorf("duration %v: want a longer one", l.Duration)
	case l.Target.Payload < 0:
		return fmt.Errorf("payload %d bytes: want 0 or more", l.Target.Payload)
	}
	return nil
}

// Result is what came of a load.
type Result struct {
	Load  Load
	Start time.Time
	// Elapsed is the time until the last answer.
	Elapsed time.Duration
	// Sent is how many requests were sent. Each was answered or has failed.
	Sent, Answered, Failed int
	// Unsent is how many requests were due and not sent, since their connections were busy until
	// twice the duration had passed.
	Unsent int
	// Latency is the time from when a request was due until its answer was complete. A request that
	// has to wait for the answer to the one before it on its connection counts the wait, so a
	// server that stalls does not hide that it does (coordinated omission).
	Latency []time.Duration
	// Late is by how much the client itself sent too late on connections that were free.
	Late *measure.Distribution
	// Errors has the number of failed requests by reason.
	Errors map[string]int
}

// warmRequests is how many requests each connection sends before the clock starts, for the
// connections and handshakes on the whole path.
const warmRequests = 20

// Run sends a load. begin is called when all connections are warm, just before the clock starts. An
// error is one of the options, or of the first requests; later ones that fail are in the result.
func Run(ctx context.Context, l Load, begin func() error) (Result, error) {
	if err := l.Validate(); err != nil {
		return Result{}, err
	}
	connections := make([]*connection, l.Connections)
	for i := range connections {
		c, err := l.Target.open()
		if err != nil {
			closeAll(connections[:i])
			return Result{}, err
		}
		connections[i] = &connection{client: c, load: l, index: i, errors: map[string]int{}}
	}
	defer closeAll(connections)
	if err := errors.Join(warm(ctx, connections), begin()); err != nil {
		return Result{}, err
	}
	var sending sync.WaitGroup
	start := time.Now()
	for _, c := range connections {
		sending.Go(func() { c.run(ctx, start) })
	}
	sending.Wait()
	r := Result{
		Load: l, Start: start, Elapsed: time.Since(start), Late: measure.NewDistribution(), Errors: map[string]int{},
	}
	for _, c := range connections {
		r.add(c)
	}
	return r, ctx.Err()
}

// warm sends the requests that are not counted.
func warm(ctx context.Context, all []*connection) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, c := range all {
		g.Go(func() error {
			for range warmRequests {
				if err := c.client.do(ctx); err != nil {
					return fmt.Errorf("the first requests to %s: %w", c.load.Target.Address, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func closeAll(connections []*connection) {
	for _, c := range connections {
		c.client.close()
	}
}

func (r *Result) add(c *connection) {
	r.Latency = append(r.Latency, c.latency...)
	r.Sent += len(c.latency) + c.failed
	r.Answered += len(c.latency)
	r.Failed += c.failed
	r.Unsent += c.unsent
	for _, d := range c.late {
		r.Late.Add(d)
	}
	for reason, n := range c.errors {
		r.Errors[reason] += n
	}
}

// QPS returns how many requests a second were answered.
func (r Result) QPS() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Answered) / r.Elapsed.Seconds()
}

// connection sends the requests of one connection, one after the other.
type connection struct {
	client        client
	load          Load
	index         int
	latency, late []time.Duration
	failed        int
	unsent        int
	errors        map[string]int
}

func (c *connection) run(ctx context.Context, start time.Time) {
	if c.load.QPS == 0 {
		for end := start.Add(c.load.Duration); time.Now().Before(end) && ctx.Err() == nil; {
			c.send(ctx, time.Now())
		}
		return
	}
	c.sendOnTime(ctx, start)
}

// sendOnTime sends the requests at fixed times. Connections take turns, so that requests are spread
// evenly.
func (c *connection) sendOnTime(ctx context.Context, start time.Time) {
	interval := float64(time.Second) / c.load.QPS
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k := 0; ; k++ {
		after := time.Duration(interval * float64(k*c.load.Connections+c.index))
		if after >= c.load.Duration || ctx.Err() != nil {
			return
		}
		due := start.Add(after)
		wait := time.Until(due)
		switch {
		case wait > 0:
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			now := time.Now()
			c.late = append(c.late, now.Sub(due))
			c.send(ctx, now) // the connection was free: the timer's delay is not the server's
		case time.Since(start) > 2*c.load.Duration:
			c.unsent++
		default:
			c.send(ctx, due)
		}
	}
}

func (c *connection) send(ctx context.Context, due time.Time) {
	if err := c.client.do(ctx); err != nil {
		if ctx.Err() == nil {
			c.failed++
			c.errors[err.Error()]++
		}
		return
	}
	c.latency = append(c.latency, time.Since(due))
}
