package envoymodel

import (
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
)

// sotwMux speaks the state-of-the-world variant. It has no queue of ACKs: each request states
// names, version and nonce as they are now, so that while a kind is paused several answers become
// one.
type sotwMux struct {
	envoy *Envoy
	*subscriptions
	state     [numKinds]sotwState
	connected bool
}

type sotwState struct {
	version, nonce, refusal string
	pending                 bool
	exists                  bool // Envoy reads responses of the kind
}

func (m *sotwMux) watch(k Kind, name string, w watcher) {
	m.state[k].exists = true
	if k == Listeners {
		m.state[Routes].exists = true
	}
	m.add(k, name, w)
	m.send(k)
}

func (m *sotwMux) unwatch(k Kind, w watcher) {
	m.sub[k].drop(w)
	m.send(k)
}

// pause also makes Envoy read responses of the kind, before it ever asks for any.
func (m *sotwMux) pause(k Kind) {
	m.state[k].exists = true
	m.sub[k].paused++
}

func (m *sotwMux) resume(k Kind) {
	m.sub[k].paused--
	if m.sub[k].paused == 0 && m.state[k].pending {
		m.send(k)
	}
}

func (m *sotwMux) open() {
	m.connected = true
	for k := range m.state {
		m.state[k].nonce = ""
	}
	for _, k := range m.order {
		m.send(k)
	}
}

func (m *sotwMux) flush() {}

func (m *sotwMux) send(k Kind) {
	if !m.connected {
		return
	}
	sub, s := m.sub[k], &m.state[k]
	if sub.paused > 0 {
		s.pending = true
		return
	}
	s.pending = false
	r := &discoveryv3.DiscoveryRequest{
		TypeUrl:       m.typeURL(k),
		ResourceNames: slices.Sorted(maps.Keys(sub.names)),
		VersionInfo:   s.version,
		ResponseNonce: s.nonce,
	}
	if s.refusal != "" {
		r.ErrorDetail = &status.Status{Code: 13, Message: s.refusal}
		s.refusal = ""
	}
	m.envoy.out = append(m.envoy.out, r)
}

// typeURL is empty in an answer to a response of a kind that was never asked for.
func (m *sotwMux) typeURL(k Kind) string {
	if !m.sub[k].known {
		return ""
	}
	return k.URL()
}

func (m *sotwMux) receive(response proto.Message) {
	r := response.(*discoveryv3.DiscoveryResponse)
	k, ok := KindByURL(r.GetTypeUrl())
	if !ok || !m.state[k].exists {
		return
	}
	sub, s := m.sub[k], &m.state[k]
	s.nonce = r.GetNonce()
	if len(sub.watches) == 0 { // it is not asked for, or no more
		if len(r.GetResources()) > 0 {
			m.send(k)
		} else {
			s.version = r.GetVersionInfo()
		}
		return
	}
	m.pause(k)
	if refusal := m.apply(sub, r); refusal != "" {
		s.refusal = refusal
		m.envoy.refused++
		sub.failAll()
	} else {
		s.version = r.GetVersionInfo()
	}
	m.send(k)
	m.resume(k)
}

// apply hands a response to its watchers, the latest first (unless Options.Shuffle says else),
// until one refuses.
func (m *sotwMux) apply(sub *subscription, r *discoveryv3.DiscoveryResponse) string {
	var all []resource
	for _, body := range r.GetResources() {
		res, refusal := decode(sub.kind, body.GetValue())
		if refusal != "" {
			return refusal
		}
		res.version = r.GetVersionInfo()
		all = append(all, res)
	}
	watches := slices.Clone(sub.watches)
	slices.Reverse(watches)
	if m.envoy.opt.Shuffle != nil {
		m.envoy.opt.Shuffle(len(watches), func(i, j int) { watches[i], watches[j] = watches[j], watches[i] })
	}
	for _, w := range watches {
		u := update{resources: all, full: true, version: r.GetVersionInfo()}
		if w.name != "" {
			u = update{version: r.GetVersionInfo()}
			for _, res := range all {
				if res.name == w.name && len(u.resources) == 0 {
					u.resources = []resource{res}
				}
			}
			if len(u.resources) == 0 {
				continue
			}
		}
		if refusal := w.update(u); refusal != "" {
			return refusal
		}
	}
	return ""
}
