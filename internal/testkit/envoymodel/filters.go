package envoymodel

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
)

// filter is a subscription to a filter (ECDS) that listeners share.
type filter struct {
	manager *listenerManager
	name    string
	users   int
	ready   bool // nobody waits for it any more
	// newest came last, also if Envoy refused it only when it put it to use, which wrong says.
	// inForce is what requests meet; nil is the default of those who name the filter.
	newest, inForce *resource
	wrong           bool
	watching        bool
	// posted says that the threads that serve have not yet taken what came last: until they have,
	// the subscription stays without users. They run once Envoy has started.
	posted bool
	fetch  *timer
}

// filterFor is the shared subscription to a filter. It begins with start.
func (m *listenerManager) filterFor(name string) *filter {
	f := m.filters[name]
	if f == nil {
		f = &filter{manager: m, name: name}
		m.filters[name] = f
	}
	f.users++
	return f
}

// start asks for the filter, unless somebody has.
func (f *filter) start(source *corev3.ExtensionConfigSource) {
	if f.watching {
		return
	}
	f.watching = true
	if d := fetchTimeout(source.GetConfigSource()); d > 0 {
		f.fetch = f.manager.envoy.after(d, f.failed)
	}
	f.manager.envoy.mux.watch(Filters, f.name, f)
}

func (f *filter) leave() {
	f.users--
	f.endUnused()
}

func (f *filter) endUnused() {
	if f.users > 0 || f.posted || f.manager.filters[f.name] != f {
		return
	}
	delete(f.manager.filters, f.name)
	f.fetch = f.manager.envoy.cancel(f.fetch)
	if f.watching {
		f.manager.envoy.mux.unwatch(Filters, f)
	}
}

// flushFilters lets the threads that serve take what came.
func (m *listenerManager) flushFilters() {
	for _, name := range sortedKeys(m.filters) {
		if f := m.filters[name]; m.started {
			f.posted = false
			f.endUnused()
		}
	}
}

// update takes a response for the filter. A removal puts the default in force, and nobody goes on
// by that who waits.
func (f *filter) update(u update) string {
	if slices.Contains(u.removed, f.name) {
		f.newest, f.inForce, f.wrong, f.posted = nil, nil, false, true
		return ""
	}
	if len(u.resources) == 0 {
		return ""
	}
	r := u.resources[0]
	if f.newest != nil && f.newest.body == r.body {
		return "" // the same again, whatever became of it
	}
	f.newest, f.wrong = &r, isWrongFilter(r.message.(*corev3.TypedExtensionConfig))
	if f.wrong {
		return "missing argument to repetition operator"
	}
	f.inForce, f.posted = &r, true
	f.proceed()
	return ""
}

// failed lets those go on who wait for the filter, with the default if there is none.
func (f *filter) failed() { f.proceed() }

func (f *filter) proceed() {
	f.fetch = f.manager.envoy.cancel(f.fetch)
	f.ready = true
	f.manager.progress()
}

// namedFilters are the filters of requests that come on their own, by name.
func namedFilters(h *hcmv3.HttpConnectionManager) map[string]*corev3.ExtensionConfigSource {
	all := map[string]*corev3.ExtensionConfigSource{}
	for _, f := range h.GetHttpFilters() {
		if f.GetConfigDiscovery() != nil {
			all[f.GetName()] = f.GetConfigDiscovery()
		}
	}
	return all
}
