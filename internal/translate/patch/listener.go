package patch

import (
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// The listeners of intercepted connections, as Istio calls them. Their chains have the ports.
const (
	virtualInbound  = "virtualInbound"
	virtualOutbound = "virtualOutbound"
)

// Listener applies patches to a listener, and to the routes in it. It returns nil for one that they
// remove, or all of its chains.
func Listener(l *listenerv3.Listener, context model.PatchContext, by Patches) (*listenerv3.Listener, Outcome) {
	return task[*listenerv3.Listener]{by, context, (*run).listener}.on(l)
}

func (r *run) listener(l *listenerv3.Listener) *listenerv3.Listener {
	for i, p := range r.of(model.PatchListener) {
		if matchesListener(p, l) && !r.stays(i, p, func() error { return merge(p, l) }) {
			return nil
		}
	}
	r.listenerFilters(l)
	had := hasChains(l)
	r.chains(l)
	if had && !hasChains(l) {
		return nil // Envoy refuses a listener without chains
	}
	return l
}

func hasChains(l *listenerv3.Listener) bool {
	return len(l.GetFilterChains()) > 0 || l.GetDefaultFilterChain() != nil
}

// matchesListener reports whether a patch is for a listener. Ports of virtual listeners are those
// of their chains, unless the patch is for the listener itself.
func matchesListener(p Patch, l *listenerv3.Listener) bool {
	m := p.Listener
	if m.Name != "" && m.Name != l.GetName() {
		return false
	}
	if m.Port == 0 || p.Target != model.PatchListener && isVirtual(l) {
		return true
	}
	return l.GetAddress().GetSocketAddress().GetPortValue() == uint32(m.Port)
}

func isVirtual(l *listenerv3.Listener) bool { return isVirtualName(l.GetName()) }

func (r *run) listenerFilters(l *listenerv3.Listener) {
	for i, p := range r.of(model.PatchListenerFilter) {
		if !matchesListener(p, l) {
			continue
		}
		of := list[*listenerv3.ListenerFilter]{items: l.GetListenerFilters()}
		of.merge = mergeFilter[*listenerv3.ListenerFilter]
		if name := p.Listener.ListenerFilter; name != "" {
			of.is = func(f *listenerv3.ListenerFilter) bool { return f.GetName() == name }
		} else if p.Operation.Merges() {
			continue // it is for one filter alone
		}
		items, n, err := of.edit(p, value[*listenerv3.ListenerFilter])
		l.ListenerFilters = items
		r.note(i, n, err)
	}
}

// chains applies patches to the filter chains of a listener, and adds others.
func (r *run) chains(l *listenerv3.Listener) {
	var chains []*listenerv3.FilterChain
	for _, c := range l.GetFilterChains() {
		if r.chain(l, c) {
			chains = append(chains, c)
		}
	}
	if c := l.GetDefaultFilterChain(); c != nil && !r.chain(l, c) {
		l.DefaultFilterChain = nil
	}
	for i, p := range r.of(model.PatchFilterChain) {
		if p.Operation == model.PatchAdd && matchesListener(p, l) {
			c, err := value[*listenerv3.FilterChain](p)
			if err == nil {
				chains = append(chains, c)
			}
			r.note(i, 1, err)
		}
	}
	l.FilterChains = chains
}

// chain applies patches to a chain and what is in it. It reports whether the chain stays.
func (r *run) chain(l *listenerv3.Listener, c *listenerv3.FilterChain) bool {
	for i, p := range r.of(model.PatchFilterChain) {
		matches := matchesListener(p, l) && matchesChain(p.Listener, l, c)
		if matches && !r.stays(i, p, func() error { return mergeChain(p, c) }) {
			return false
		}
	}
	r.networkFilters(l, c)
	return true
}

func matchesChain(m model.ListenerMatch, l *listenerv3.Listener, c *listenerv3.FilterChain) bool {
	of, match := m.Chain, c.GetFilterChainMatch()
	port := match.GetDestinationPort().GetValue()
	if isVirtual(l) && m.Port != 0 && port != uint32(m.Port) {
		return false
	}
	for _, protocol := range strings.Split(of.ApplicationProtocols, ",") {
		if protocol != "" && !slices.Contains(match.GetApplicationProtocols(), protocol) {
			return false
		}
	}
	return (of.Name == "" || of.Name == c.GetName()) &&
		(of.SNI == "" || slices.Contains(match.GetServerNames(), of.SNI)) &&
		(of.TransportProtocol == "" || of.TransportProtocol == match.GetTransportProtocol()) &&
		(of.DestinationPort == 0 || port == uint32(of.DestinationPort))
}

// mergeChain merges the value of a patch. A transport socket is merged into the one of its name.
func mergeChain(p Patch, c *listenerv3.FilterChain) error {
	from, err := value[*listenerv3.FilterChain](p)
	if err != nil {
		return err
	}
	to, with := c.GetTransportSocket(), from.GetTransportSocket()
	if to != nil && with != nil && to.GetName() == with.GetName() {
		from.TransportSocket = nil
		if err := mergerOf(p).socket(to, with); err != nil {
			return err
		}
	}
	mergerOf(p).message(c.ProtoReflect(), from.ProtoReflect())
	return nil
}
