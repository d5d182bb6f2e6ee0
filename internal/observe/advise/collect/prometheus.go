package collect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe/advise"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// mostAnswer bounds the answer of Prometheus, in bytes.
const mostAnswer = 64 << 20

// Prometheus is asked for the metrics of a window.
type Prometheus struct {
	// Address is its URL, which may lack the scheme.
	Address string
	Window  time.Duration
	Client  *http.Client
}

// sample is one element of a vector.
type sample struct {
	labels map[string]string
	value  float64
}

// Replicas returns the replicas of the control plane: the instances that tell pilot_info.
func (p Prometheus) Replicas(ctx context.Context) ([]advise.Replica, error) {
	known, err := p.query(ctx, "pilot_info")
	if err != nil {
		return nil, err
	}
	replicas := map[string]advise.Replica{}
	for _, s := range known {
		name := s.labels["instance"]
		replicas[name] = newReplica(name, p.Window.Seconds())
	}
	if len(replicas) == 0 {
		return nil, fmt.Errorf("prometheus at %s: it has no metric pilot_info; want one that scrapes the control plane",
			p.Address)
	}
	if err := p.fill(ctx, replicas); err != nil {
		return nil, err
	}
	var all []advise.Replica
	for _, r := range replicas {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b advise.Replica) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// fill asks for each metric of all replicas.
func (p Prometheus) fill(ctx context.Context, replicas map[string]advise.Replica) error {
	each := func(query string, set func(advise.Replica, sample)) error {
		found, err := p.query(ctx, query)
		for _, s := range found {
			if r, is := replicas[s.labels["instance"]]; is {
				set(r, s)
			}
		}
		return err
	}
	window := fmt.Sprintf("[%ds]", int(p.Window.Seconds()))
	var errs []error
	for _, name := range advise.CounterNames() {
		errs = append(errs, each("sum by (instance) (increase("+name+window+"))",
			func(r advise.Replica, s sample) { r.Counters[name] = s.value }))
	}
	for _, name := range advise.GaugeNames() {
		errs = append(errs, each("sum by (instance) ("+name+")",
			func(r advise.Replica, s sample) { r.Gauges[name] = s.value }))
	}
	for _, name := range advise.HistogramNames() {
		part := func(suffix, by string, set func(*advise.Histogram, sample)) {
			errs = append(errs, each("sum by (instance"+by+") (increase("+name+suffix+window+"))",
				func(r advise.Replica, s sample) {
					h := r.Histograms[name]
					set(&h, s)
					r.Histograms[name] = h
				}))
		}
		part("_count", "", func(h *advise.Histogram, s sample) { h.Count = s.value })
		part("_sum", "", func(h *advise.Histogram, s sample) { h.Sum = s.value })
		part("_bucket", ", le", func(h *advise.Histogram, s sample) {
			if bound, err := strconv.ParseFloat(s.labels["le"], 64); err == nil {
				h.Buckets = append(h.Buckets, advise.Bucket{UpperBound: bound, Count: s.value})
			}
		})
	}
	return errors.Join(errs...)
}

// Calls returns who called whom, by Istio's standard metrics.
func (p Prometheus) Calls(ctx context.Context) (advise.Calls, error) {
	window := fmt.Sprintf("[%ds]", int(p.Window.Seconds()))
	calls := advise.Calls{Source: "Prometheus", ByNamespace: map[string]map[model.Host]float64{}}
	for _, metric := range []string{"istio_requests_total", "istio_tcp_connections_opened_total"} {
		found, err := p.query(ctx, "sum by (source_workload_namespace, destination_service) (increase("+metric+window+
			")) > 0")
		if err != nil {
			return advise.Calls{}, err
		}
		for _, s := range found {
			addCall(calls, s.labels["source_workload_namespace"], s.labels["destination_service"], s.value)
		}
	}
	if len(calls.ByNamespace) == 0 {
		return advise.Calls{}, nil
	}
	return calls, nil
}

// Requests returns how many requests the mesh has a second, and how many of them are answered with
// 400 or more.
func (p Prometheus) Requests(ctx context.Context) (all, failed float64, err error) {
	rate := func(labels string) (float64, error) {
		found, err := p.query(ctx, fmt.Sprintf(`sum(rate(istio_requests_total{reporter="source"%s}[%ds]))`, labels,
			int(p.Window.Seconds())))
		if err != nil || len(found) == 0 {
			return 0, err
		}
		return found[0].value, nil
	}
	if all, err = rate(""); err != nil {
		return 0, 0, err
	}
	failed, err = rate(`,response_code=~"[45].."`)
	return all, failed, err
}

// addCall adds requests of a namespace to a host. Proxies call hosts that they do not know
// "unknown" or by the name of a cluster.
func addCall(calls advise.Calls, namespace, host string, n float64) {
	if namespace == "" || namespace == "unknown" || !strings.Contains(host, ".") {
		return
	}
	if calls.ByNamespace[namespace] == nil {
		calls.ByNamespace[namespace] = map[model.Host]float64{}
	}
	calls.ByNamespace[namespace][model.Host(host)] += n
}

// query asks for a vector.
func (p Prometheus) query(ctx context.Context, query string) ([]sample, error) {
	api := measure.Prometheus{Address: p.Address, Client: p.Client, MaxAnswer: mostAnswer}
	answer, status, err := api.Get(ctx, "query", url.Values{"query": {query}})
	if err != nil {
		return nil, fmt.Errorf("prometheus at %s: %w", p.Address, err)
	}
	found, err := vectorOf(answer)
	if err != nil {
		return nil, fmt.Errorf("prometheus at %s: %s: %w", p.Address, status, err)
	}
	return found, nil
}

// vectorOf reads the answer to an instant query. Values that are no numbers are left out.
func vectorOf(body []byte) ([]sample, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  []any
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("this is no answer to a query: %w", err)
	}
	if answer.Status != "success" {
		return nil, errors.New("the query failed: " + answer.Error)
	}
	var all []sample
	for _, r := range answer.Data.Result {
		if len(r.Value) != 2 {
			return nil, fmt.Errorf("a value has %d parts, want time and number", len(r.Value))
		}
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || value != value { // NaN
			continue
		}
		all = append(all, sample{r.Metric, value})
	}
	return all, nil
}
