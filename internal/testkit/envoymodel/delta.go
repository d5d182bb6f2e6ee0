package envoymodel

import (
	"fmt"
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// deltaMux speaks the delta variant.
type deltaMux struct {
	envoy *Envoy
	*subscriptions
	state     [numKinds]deltaState
	acks      []ack
	connected bool
}

// deltaState is what Envoy remembers of one kind.
type deltaState struct {
	// requested are the subscribed names, with the version that was accepted last, empty while
	// there is none.
	requested map[string]string
	// covered are versions of resources that only the wildcard brought.
	covered        map[string]string
	added, removed map[string]bool // not said yet
}

type ack struct {
	kind    Kind
	nonce   string
	refusal string
}

func (m *deltaMux) of(k Kind) *deltaState {
	s := &m.state[k]
	if s.requested == nil {
		s.requested, s.covered = map[string]string{}, map[string]string{}
		s.added, s.removed = map[string]bool{}, map[string]bool{}
	}
	return s
}

func (m *deltaMux) watch(k Kind, name string, w watcher) {
	if m.add(k, name, w) && !k.wildcard() {
		s := m.of(k)
		s.requested[name] = ""
		delete(s.removed, name)
		s.added[name] = true
	}
	m.send()
}

func (m *deltaMux) unwatch(k Kind, w watcher) {
	if name, last := m.sub[k].drop(w); last {
		s := m.of(k)
		delete(s.requested, name)
		delete(s.added, name)
		s.removed[name] = true
	}
	m.send()
}

func (m *deltaMux) pause(k Kind) { m.sub[k].paused++ }

func (m *deltaMux) resume(k Kind) {
	m.sub[k].paused--
	m.send()
}

func (m *deltaMux) open() {
	m.acks = nil
	for _, sub := range m.sub {
		sub.opened = false
	}
	m.connected = true
	m.send()
}

// send says all that may be said: ACKs first, in order, then changes of subscriptions. An ACK takes
// such a change along.
func (m *deltaMux) send() { m.say(false) }

func (m *deltaMux) flush() { m.say(true) }

func (m *deltaMux) say(all bool) {
	if !m.connected {
		return
	}
	for {
		i := slices.IndexFunc(m.acks, func(a ack) bool { return m.sub[a.kind].paused == 0 })
		if i < 0 {
			break
		}
		a := m.acks[i]
		m.acks = slices.Delete(m.acks, i, i+1)
		r := m.request(a.kind)
		r.ResponseNonce = a.nonce
		if a.refusal != "" {
			r.ErrorDetail = &status.Status{Code: 13, Message: a.refusal}
		}
		m.envoy.out = append(m.envoy.out, r)
	}
	for _, k := range m.order {
		if m.sub[k].paused == 0 && m.pending(k) && (all || !m.lags(k)) {
			m.envoy.out = append(m.envoy.out, m.request(k))
		}
	}
}

func (m *deltaMux) lags(k Kind) bool {
	return m.sub[k].opened && m.envoy.opt.Lag != nil && m.envoy.opt.Lag()
}

// pending tells whether a kind has something to say besides ACKs. One without names says nothing on
// a new stream.
func (m *deltaMux) pending(k Kind) bool {
	sub, s := m.sub[k], m.of(k)
	if !sub.opened {
		return sub.known && (k.wildcard() || len(s.requested) > 0)
	}
	return len(s.added)+len(s.removed) > 0
}

func (m *deltaMux) request(k Kind) *discoveryv3.DeltaDiscoveryRequest {
	sub, s := m.sub[k], m.of(k)
	r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: k.URL()}
	if sub.opened {
		r.ResourceNamesSubscribe = slices.Sorted(maps.Keys(s.added))
		r.ResourceNamesUnsubscribe = slices.Sorted(maps.Keys(s.removed))
	} else {
		r.ResourceNamesSubscribe = slices.Sorted(maps.Keys(s.requested))
		r.InitialResourceVersions = map[string]string{}
		for _, versions := range []map[string]string{s.requested, s.covered} {
			for name, v := range versions {
				if v != "" {
					r.InitialResourceVersions[name] = v
				}
			}
		}
	}
	sub.opened = true
	clear(s.added)
	clear(s.removed)
	return r
}

func (m *deltaMux) receive(response proto.Message) {
	r := response.(*discoveryv3.DeltaDiscoveryResponse)
	k, ok := KindByURL(r.GetTypeUrl())
	if !ok || !m.sub[k].known {
		return // not even acknowledged
	}
	refusal := m.apply(k, r)
	if refusal == "" {
		m.remember(k, r)
	} else {
		m.envoy.refused++
		m.sub[k].failAll()
	}
	m.acks = append(m.acks, ack{k, r.GetNonce(), refusal})
	m.send()
}

// apply hands a response to its watchers and returns why it is refused, or nothing.
func (m *deltaMux) apply(k Kind, r *discoveryv3.DeltaDiscoveryResponse) string {
	if name := duplicate(r); name != "" {
		return fmt.Sprintf("duplicate name %s found in the union of added+removed resources", name)
	}
	sub := m.sub[k]
	updates := make([]update, len(sub.watches))
	for i := range updates {
		updates[i].version = r.GetSystemVersionInfo()
	}
	touched := make([]bool, len(sub.watches))
	for _, res := range r.GetResources() {
		var decoded resource
		for i, w := range sub.watches {
			if !k.covers(w.name, res.GetName()) {
				continue
			}
			if decoded.message == nil { // what nobody watches is not looked at
				var refusal string
				if decoded, refusal = decode(k, res.GetResource().GetValue()); refusal != "" {
					return refusal
				}
				decoded.wire, decoded.version = res.GetName(), res.GetVersion()
			}
			updates[i].resources = append(updates[i].resources, decoded)
			touched[i] = true
		}
	}
	for _, name := range r.GetRemovedResources() {
		for i, w := range sub.watches {
			if k.covers(w.name, name) {
				updates[i].removed = append(updates[i].removed, name)
				touched[i] = true
			}
		}
	}
	return m.deliver(k, updates, touched)
}

// deliver serves the watchers in an order that nobody can tell, until one refuses.
func (m *deltaMux) deliver(k Kind, updates []update, touched []bool) string {
	var order []int
	watches := slices.Clone(m.sub[k].watches)
	for i, w := range watches {
		if touched[i] || w.name == "" {
			order = append(order, i)
		}
	}
	if m.envoy.opt.Shuffle != nil {
		m.envoy.opt.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, i := range order {
		if refusal := watches[i].update(updates[i]); refusal != "" {
			return refusal
		}
	}
	return ""
}

func duplicate(r *discoveryv3.DeltaDiscoveryResponse) string {
	seen := map[string]bool{}
	for _, res := range r.GetResources() {
		if seen[res.GetName()] {
			return res.GetName()
		}
		seen[res.GetName()] = true
	}
	for _, name := range r.GetRemovedResources() {
		if seen[name] {
			return name
		}
		seen[name] = true
	}
	return ""
}

// remember notes the versions of an accepted response.
func (m *deltaMux) remember(k Kind, r *discoveryv3.DeltaDiscoveryResponse) {
	s := m.of(k)
	for _, res := range r.GetResources() {
		if _, ok := s.requested[res.GetName()]; ok {
			s.requested[res.GetName()] = res.GetVersion()
		} else if k.wildcard() {
			s.covered[res.GetName()] = res.GetVersion()
		}
	}
	for _, name := range r.GetRemovedResources() {
		if _, ok := s.requested[name]; ok {
			s.requested[name] = ""
		}
		delete(s.covered, name)
	}
}
