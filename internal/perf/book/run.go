package book

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// domain is that of the hosts in the book.
const domain = "istioinaction.io"

// Options say what is created, and who is asked.
type Options struct {
	Client dynamic.Interface
	// Namespace is where the objects are created.
	Namespace string
	// Reps is how many of each are created, Delay how long the test waits after each.
	Reps  int
	Delay time.Duration
	// Gateway is the URL of the gateway, and Path what is asked for there.
	Gateway, Path string
	// GatewaySelector are the labels of the gateway's Pods, GatewayPort its port in Gateways.
	GatewaySelector map[string]string
	GatewayPort     int
	// Selector are the labels of the Pods behind the Services, and TargetPort their port.
	Selector   map[string]string
	TargetPort int
	// Metrics returns the metrics of all replicas of the control plane, added up.
	Metrics func(ctx context.Context) (measure.Metrics, error)
	// Prometheus is asked for the latency if it is not nil. It returns seconds.
	Prometheus func(ctx context.Context, query string) (float64, error)
	// Patience is how long the last one may take to answer, and pushes to calm down.
	Patience time.Duration
	// Settle is how long no push must have been made for the test to be over.
	Settle time.Duration
	// Progress is told how many are created. It may be nil.
	Progress func(what string, done, all int)
}

// Validate reports what is wrong with the options.
func (o Options) Validate() error {
	switch {
	case o.Reps < 1:
		return fmt.Errorf("reps %d: want 1 or more", o.Reps)
	case o.Delay < 0:
		return fmt.Errorf("delay %v: want 0 or more", o.Delay)
	case o.Namespace == "":
		return errors.New("namespace: want the one in which to create the objects")
	case len(o.Selector) == 0 || len(o.GatewaySelector) == 0:
		return errors.New("selector: want labels, as app=catalog")
	}
	return nil
}

// Result is what the test tells.
type Result struct {
	// Kind tells this report from others: "control-plane".
	Kind    string `json:"kind"`
	Command string `json:"command,omitempty"`
	Lateen  string `json:"lateen,omitempty"`
	Reps    int    `json:"reps"`
	// PushCount is how many responses the control plane has sent to proxies for the new objects.
	PushCount int `json:"pushCount"`
	// Latency is p99 of pilot_proxy_convergence_time in the last minute, in seconds. The time that
	// changes wait for others (debounce) is not in it.
	Latency float64 `json:"latencyP99Seconds"`
	// Observed is whether there was anything in that minute.
	Observed bool `json:"observed"`
	// Answered is the time from when the last was created until it answered through the gateway.
	Answered measure.Seconds `json:"lastAnsweredSeconds"`
}

// Kind is the kind of the result in its JSON.
const Kind = "control-plane"

const (
	pushes      = "pilot_xds_pushes"
	convergence = "pilot_proxy_convergence_time"
	// latencyQuery is the book's own.
	latencyQuery = "histogram_quantile(0.99, sum(rate(" + convergence + "_bucket[1m])) by (le))"
)

// Run runs the test. It deletes what it has created also when it fails or the context ends.
func Run(ctx context.Context, o Options) (r Result, err error) {
	if err := o.Validate(); err != nil {
		return r, err
	}
	t := &test{o: o, id: identifier()}
	defer func() { err = errors.Join(err, t.cleanUp(ctx)) }()
	before, err := t.read(ctx)
	if err != nil {
		return r, err
	}
	if err := t.create(ctx); err != nil {
		return r, err
	}
	last := time.Now()
	if err := t.awaitAnswer(ctx, t.name(o.Reps-1)); err != nil {
		return r, err
	}
	r = Result{Kind: Kind, Reps: o.Reps, Answered: measure.Seconds(time.Since(last))}
	after, err := t.awaitCalm(ctx)
	if err != nil {
		return r, err
	}
	r.PushCount = int(after.Sum(pushes) - before.Sum(pushes))
	r.Latency, err = t.latency(ctx, after)
	if r.Observed = err == nil && r.Latency == r.Latency; !r.Observed { // NaN: nothing was observed
		r.Latency = 0
	}
	return r, err
}

// test is a running test.
type test struct {
	o  Options
	id string // in the names of objects, so that runs do not meet
	// readings are the metrics so far, oldest first.
	readings []reading
	created  []object
}

type reading struct {
	at      time.Time
	metrics measure.Metrics
}

func identifier() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

func (t *test) name(i int) string { return fmt.Sprintf("service-%s-%d", t.id, i) }

func (t *test) read(ctx context.Context) (measure.Metrics, error) {
	m, err := t.o.Metrics(ctx)
	if err == nil {
		t.readings = append(t.readings, reading{time.Now(), m})
	}
	return m, err
}

// create creates all objects, and reads the metrics after each delay.
func (t *test) create(ctx context.Context) error {
	for i := range t.o.Reps {
		t.progress("created", i)
		if err := t.createOne(ctx, t.name(i)); err != nil {
			return err
		}
		if t.o.Delay == 0 {
			continue
		}
		if err := wait(ctx, t.o.Delay); err != nil {
			return err
		}
		if _, err := t.read(ctx); err != nil {
			return err
		}
	}
	t.progress("created", t.o.Reps)
	return nil
}

func (t *test) progress(what string, done int) {
	if t.o.Progress != nil {
		t.o.Progress(what, done, t.o.Reps)
	}
}

// wait waits, or returns the context's error.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// again is the pause between two requests for something that is awaited.
const again = 200 * time.Millisecond

// awaitAnswer returns when a host answers through the gateway.
func (t *test) awaitAnswer(ctx context.Context, name string) error {
	waiting, cancel := context.WithTimeout(ctx, t.o.Patience)
	defer cancel()
	url, host := t.o.Gateway+t.o.Path, name+"."+domain
	for {
		err := answers(waiting, url, host)
		if err == nil {
			return nil
		}
		if wait(waiting, again) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("host %s does not answer at %s within %v: %w; want a gateway with the labels %v, "+
				"and Pods with the labels %v in namespace %s",
				host, url, t.o.Patience, err, t.o.GatewaySelector, t.o.Selector, t.o.Namespace)
		}
	}
}

func answers(ctx context.Context, url, host string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Host = host
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// awaitCalm returns the metrics when no push was made for a while.
func (t *test) awaitCalm(ctx context.Context) (measure.Metrics, error) {
	deadline := time.Now().Add(t.o.Patience)
	m, err := t.read(ctx)
	for err == nil {
		if err = wait(ctx, t.o.Settle); err != nil {
			break
		}
		before := m.Sum(pushes)
		if m, err = t.read(ctx); err == nil && (m.Sum(pushes) == before || time.Now().After(deadline)) {
			return m, nil
		}
	}
	return nil, err
}

// latency returns the p99 of the last minute: what Prometheus says, or what the metrics have
// counted since the newest reading that is a minute old, or since the first.
func (t *test) latency(ctx context.Context, now measure.Metrics) (float64, error) {
	if t.o.Prometheus != nil {
		return t.o.Prometheus(ctx, latencyQuery)
	}
	since := t.readings[0]
	for _, r := range t.readings {
		if time.Since(r.at) >= time.Minute {
			since = r
		}
	}
	return now.Quantile(0.99, convergence, since.metrics), nil
}
