package booklab

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/lateenserve"
	"github.com/lateen-mesh/lateen/internal/testkit/leanproxy"
)

// setting is one way in which the lab is run.
type setting struct {
	name string
	id   string // in names
	env  []string
	// scoped tells that a Sidecar keeps the applications from the sidecars: only the gateway has
	// the changes.
	scoped bool
}

func settings() []setting {
	return []setting{
		{name: "as is", id: "i"},
		{name: "mesh-wide Sidecar", id: "ii", scoped: true},
		{name: "and debounce 2.5 s", id: "iii", scoped: true, env: []string{"PILOT_DEBOUNCE_AFTER=2.5s"}},
	}
}

// pause stands between two changes of the full form.
const pause = 2500 * time.Millisecond

func TestBookLab(t *testing.T) {
	if testing.Short() {
		t.Skip("a live test")
	}
	c := newCluster(t)
	var all []result
	for _, s := range settings() {
		if s.scoped && !all[len(all)-1].setting.scoped {
			c.narrow()
		}
		if s.env != nil && !*full {
			continue // differs from the setting before in times alone
		}
		t.Run(s.id, func(t *testing.T) { all = append(all, c.run(t, s)) })
		require.False(t, t.Failed())
	}
	if *full {
		write(t, all)
	}
}

// run lets a control plane with fresh proxies meet the changes.
func (c *cluster) run(t *testing.T, s setting) result {
	env := s.env
	if !*full {
		env = []string{"PILOT_DEBOUNCE_AFTER=100ms"} // no early batches: the objects of a change count as one
	}
	lateen := lateenserve.Start(t, lateenserve.Options{
		Binary: binary,
		Args:   []string{"--kubeconfig", c.api.Kubeconfig()},
		Env:    env,
	})
	l := &lab{cluster: c, setting: s, lateen: lateen, changes: 3}
	if *full {
		l.changes = 10
	}
	l.sidecars, l.gateway = c.connect(t, lateen.XDS)
	before := l.look(t)
	l.change(t)
	l.await(t)
	r := l.result(t, before)
	l.check(t, before, r)
	return r
}

// lab is one run.
type lab struct {
	*cluster
	setting  setting
	lateen   *lateenserve.Process
	sidecars []*leanproxy.Client
	gateway  *leanproxy.Client
	changes  int
	began    []time.Time // each change's first write
}

func (l *lab) name(i int) string { return fmt.Sprintf("perf-%s-%d", l.setting.id, i) }

// proxies are all; those that a change concerns are concerned.
func (l *lab) proxies() []*leanproxy.Client { return append(slices.Clone(l.sidecars), l.gateway) }

func (l *lab) concerned() []*leanproxy.Client {
	if l.setting.scoped {
		return []*leanproxy.Client{l.gateway}
	}
	return l.proxies()
}

// domain is by what a proxy calls the application of a change.
func (l *lab) domain(p *leanproxy.Client, i int) string {
	if p == l.gateway {
		return outside(l.name(i))
	}
	return inside(l.name(i))
}

// change makes the changes: the book's with a pause after each, those of the short form each once
// the one before has arrived.
func (l *lab) change(t *testing.T) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for i := range l.changes {
		l.began = append(l.began, time.Now())
		l.application(l.name(i))
		if *full {
			<-ticker.C
		} else {
			l.awaitChange(t, i)
		}
	}
}

func (l *lab) await(t *testing.T) {
	for i := range l.changes {
		l.awaitChange(t, i)
	}
}

// awaitChange waits until each proxy that a change concerns can send requests there: it has the
// cluster, its endpoint and a route.
func (l *lab) awaitChange(t *testing.T, i int) {
	for _, p := range l.concerned() {
		p.Await(t, l.domain(p, i), func(s *leanproxy.State) bool {
			_, routed := s.Routes(l.domain(p, i))
			return routed && s.Hosts(clusterOf(l.name(i))) != ""
		})
	}
}

// view is what had been sent, and what it had cost, at one time.
type view struct {
	metrics   lateenserve.Metrics
	bytes     int64
	cpu       time.Duration
	responses map[*leanproxy.Client]int
}

func (l *lab) look(t *testing.T) view {
	v := view{metrics: l.lateen.Metrics(t), cpu: l.lateen.Usage(t).CPU, responses: map[*leanproxy.Client]int{}}
	for _, p := range l.proxies() {
		v.bytes += p.Bytes()
		p.Look(func(s *leanproxy.State) { v.responses[p] = len(s.Responses) })
	}
	return v
}

// since are the responses that a proxy got after a look.
func (l *lab) since(v view, p *leanproxy.Client) (responses []leanproxy.Response) {
	p.Look(func(s *leanproxy.State) { responses = slices.Clone(s.Responses[v.responses[p]:]) })
	return responses
}
