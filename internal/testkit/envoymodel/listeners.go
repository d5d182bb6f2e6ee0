package envoymodel

import (
	"fmt"
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
)

// listenerManager is Envoy's. A listener waits for its routes before it serves; before Envoy has
// started, all wait for all.
type listenerManager struct {
	envoy           *Envoy
	active, warming map[string]*listener
	tables          map[string]*routeTable
	filters         map[string]*filter
	answered        bool // there was a first response, taken or refused
	started         bool // listeners serve
	draining        []*listener
}

func newListenerManager(e *Envoy) listenerManager {
	return listenerManager{
		envoy:   e,
		active:  map[string]*listener{},
		warming: map[string]*listener{},
		tables:  map[string]*routeTable{},
		filters: map[string]*filter{},
	}
}

// listener is one form of a listener.
type listener struct {
	name    string
	version string
	body    string
	outside string // the body without filter chains
	label   string // what its filters do, as summaries show it
	tables  []*routeTable
	filters []*filter
	sources []*corev3.ExtensionConfigSource // of the filters
	// clusters are named without a table.
	clusters []string
}

// start asks for listeners.
func (m *listenerManager) start() { m.envoy.mux.watch(Listeners, "", m) }

// update takes a response for listeners. Removals are first.
func (m *listenerManager) update(u update) string {
	m.envoy.mux.pause(Routes)
	for _, name := range gone(u, m.active, m.warming) {
		m.remove(name)
	}
	m.progress() // Envoy starts when the last that it waits for is gone
	var refused refusals
	seen := map[string]bool{}
	for _, r := range u.resources {
		if seen[r.name] {
			refused.add(r.name, fmt.Sprintf("duplicate listener %s found", r.name))
			continue
		}
		seen[r.name] = true
		if why := m.put(r); why != "" {
			refused.add(r.name, why)
		}
		if !m.started {
			m.progress()
		}
	}
	m.answered = true
	m.progress()
	m.envoy.mux.resume(Routes)
	return refused.message(listenersRefused, "\n")
}

func (m *listenerManager) failed() {
	m.answered = true
	m.progress()
}

// put adds a listener or makes it replace another, unless it is the same, or says why Envoy does
// not.
func (m *listenerManager) put(r resource) string {
	warming, active := m.warming[r.name], m.active[r.name]
	switch {
	case warming != nil && active != nil && active.body == r.body:
		delete(m.warming, r.name) // back to what it was
		m.release(warming)
		return ""
	case warming != nil && warming.body == r.body, warming == nil && active != nil && active.body == r.body:
		return ""
	}
	l, why := m.build(r)
	if why != "" {
		return why
	}
	if active != nil && active.outside == l.outside {
		l.version = active.version // a listener whose filter chains alone change keeps what else is said of it
	}
	m.warming[r.name] = l
	m.replace(warming, l)
	return ""
}

// replace ends what a listener that warmed has asked for, if there was one, and asks for the
// filters of the new one. Envoy does either first.
func (m *listenerManager) replace(old, l *listener) {
	steps := []func(){
		func() {
			for i, f := range l.filters {
				f.start(l.sources[i])
			}
		},
		func() {
			if old != nil {
				m.release(old)
			}
		},
	}
	if m.envoy.opt.Shuffle != nil && old != nil && len(old.filters)+len(l.filters) > 0 {
		m.envoy.opt.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	}
	for _, step := range steps {
		step()
	}
}

func (m *listenerManager) remove(name string) {
	if l := m.warming[name]; l != nil {
		delete(m.warming, name)
		m.release(l)
	}
	if l := m.active[name]; l != nil {
		delete(m.active, name)
		m.drain(l)
	}
}

// progress puts listeners to work that need not wait any more.
func (m *listenerManager) progress() {
	if !m.answered {
		return
	}
	names := slices.Sorted(maps.Keys(m.warming))
	if !m.started {
		if slices.ContainsFunc(names, func(n string) bool { return !m.warming[n].isReady() }) {
			return
		}
		m.started = true
	}
	for _, name := range names {
		l := m.warming[name]
		if !l.isReady() {
			continue
		}
		if old := m.active[name]; old != nil {
			m.drain(old)
		}
		m.active[name] = l
		delete(m.warming, name)
	}
}

func (l *listener) isReady() bool {
	return !slices.ContainsFunc(l.tables, func(t *routeTable) bool { return !t.ready }) &&
		!slices.ContainsFunc(l.filters, func(f *filter) bool { return !f.ready })
}

// drain lets a listener that served go on until the drain time is over.
func (m *listenerManager) drain(l *listener) {
	m.draining = append(m.draining, l)
	m.envoy.after(m.envoy.opt.Drain, func() {
		m.draining = slices.DeleteFunc(m.draining, func(d *listener) bool { return d == l })
		m.release(l)
	})
}

// release ends a listener's subscriptions to routes and filters that no other has.
func (m *listenerManager) release(l *listener) {
	for _, f := range l.filters {
		f.leave()
	}
	for _, t := range l.tables {
		t.users--
		if t.users == 0 {
			delete(m.tables, t.name)
			t.stop()
		}
	}
}

// build makes a listener of its message, or says why Envoy does not.
func (m *listenerManager) build(r resource) (*listener, string) {
	p := r.message.(*listenerv3.Listener)
	l := &listener{name: r.name, version: r.version, body: r.body, outside: outside(p)}
	var wanted []*hcmv3.Rds
	named := map[string]*corev3.ExtensionConfigSource{}
	for _, chain := range p.GetFilterChains() {
		for _, f := range chain.GetFilters() {
			m, err := f.GetTypedConfig().UnmarshalNew()
			if err != nil {
				return nil, fmt.Sprintf("Didn't find a registered implementation for '%s'", f.GetName())
			}
			switch filter := m.(type) {
			case *hcmv3.HttpConnectionManager:
				if why := wrongTable(filter.GetRouteConfig()); why != "" {
					return nil, why
				}
				l.label += filter.GetStatPrefix() + ">" + filter.GetRds().GetRouteConfigName()
				if filter.GetRds() != nil {
					wanted = append(wanted, filter.GetRds())
				}
				maps.Copy(named, namedFilters(filter))
			case *tcpv3.TcpProxy:
				l.label += filter.GetStatPrefix() + ">>" + filter.GetCluster()
				l.clusters = append(l.clusters, filter.GetCluster())
			}
		}
	}
	for name := range named {
		if f := m.filters[name]; f != nil && f.wrong {
			return nil, "the newest filter " + name + " is wrong"
		}
	}
	for _, name := range sortedKeys(named) {
		l.label += "+" + name
	}
	for _, rds := range wanted {
		l.tables = append(l.tables, m.table(rds))
	}
	for _, name := range sortedKeys(named) {
		l.filters, l.sources = append(l.filters, m.filterFor(name)), append(l.sources, named[name])
	}
	return l, ""
}

func outside(p *listenerv3.Listener) string {
	bare := proto.Clone(p).(*listenerv3.Listener)
	bare.FilterChains = nil
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(bare) // it was decoded, so it can be encoded
	return string(text)
}

func (m *listenerManager) summarize(s *Summary) {
	for name, l := range m.active {
		s.Listeners[name] = l.version + "(" + l.label + ")"
	}
	for name, l := range m.warming {
		s.WarmingListeners[name] = l.version + "(" + l.label + ")"
	}
	for name, t := range m.tables {
		if t.shown {
			s.Routes[name] = t.version + t.describeHosts()
		}
	}
	for name, f := range m.filters {
		if f.newest != nil {
			s.Filters[name] = f.newest.version
		}
	}
}
