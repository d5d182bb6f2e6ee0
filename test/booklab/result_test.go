package booklab

import (
	"testing"
	"time"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/leanproxy"
)

// result is what one run measured.
type result struct {
	setting setting
	changes int
	// generations are how many steps of the world the changes came in: one each, more where the
	// objects of a change came apart.
	generations int
	pushes      map[string]int // responses by type: cds, eds, lds, rds, vhds
	p50, p99    float64        // of pilot_proxy_convergence_time, in seconds
	// last is, for each change, the time from its first write to the API server until the last
	// proxy had it.
	last []time.Duration
	// bytes came to all proxies for all changes, HTTP/2's framing included.
	bytes int64
	// config is what a sidecar had of configuration before.
	config int
	cpu    time.Duration
	memory int64 // resident, in bytes
}

func (l *lab) result(t *testing.T, before view) result {
	after := l.look(t)
	r := result{
		setting: l.setting,
		changes: l.changes,
		pushes:  map[string]int{},
		bytes:   after.bytes - before.bytes,
		cpu:     after.cpu - before.cpu,
		p50:     after.metrics.Quantile(0.5, "pilot_proxy_convergence_time", before.metrics),
		p99:     after.metrics.Quantile(0.99, "pilot_proxy_convergence_time", before.metrics),
	}
	for _, kind := range []string{"cds", "eds", "lds", "rds", "vhds"} {
		r.pushes[kind] = pushes(after.metrics, kind) - pushes(before.metrics, kind)
	}
	r.generations = int(after.metrics.Sum("lateen_generation") - before.metrics.Sum("lateen_generation"))
	r.memory = l.lateen.Usage(t).Resident
	l.sidecars[0].Look(func(s *leanproxy.State) {
		for _, kind := range leanproxy.Types() {
			r.config += s.Size(kind)
		}
	})
	for i := range l.changes {
		r.last = append(r.last, l.lastArrival(i))
	}
	t.Logf("%+v", r)
	return r
}

func pushes(m lateenserve.Metrics, kind string) int {
	return int(m.Sum("pilot_xds_pushes", "type", kind))
}

// lastArrival is how long after a change's first write the last proxy that it concerns had a route
// to it.
func (l *lab) lastArrival(i int) (last time.Duration) {
	for _, p := range l.concerned() {
		p.Look(func(s *leanproxy.State) {
			if at, ok := s.Routes(l.domain(p, i)); ok {
				last = max(last, at.Sub(l.began[i]))
			}
		})
	}
	return last
}
