package state

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// mostListedHosts is how many hosts of a port each listener lists to answer their requests with
// 421: as many as a Gateway has listeners without ListenerSets. A port with n hosts would have n
// lists of n hosts otherwise, in the state and in each proxy.
const mostListedHosts = 64

// portHosts are the hosts of the open listeners of a port.
type portHosts struct {
	all []model.Host // sorted, each once
	// under has the hosts that a wildcard of the port covers, sorted. It is nil while all are
	// listed.
	under map[model.Host][]model.Host
}

// hostsByPort returns the hosts of a Gateway's open listeners by their ports.
func hostsByPort(g *model.KubernetesGateway) map[uint16]*portHosts {
	ports := map[uint16]*portHosts{}
	for i := range g.Listeners {
		l := &g.Listeners[i]
		if !l.IsOpen() {
			continue
		}
		if ports[l.Port] == nil {
			ports[l.Port] = &portHosts{}
		}
		ports[l.Port].all = append(ports[l.Port].all, l.Host)
	}
	for _, p := range ports {
		slices.Sort(p.all)
		if p.all = slices.Compact(p.all); len(p.all) > mostListedHosts {
			p.under = covered(p.all)
		}
	}
	return ports
}

// covered returns which of the hosts each wildcard covers, without itself.
func covered(hosts []model.Host) map[model.Host][]model.Host {
	under := map[model.Host][]model.Host{}
	for _, h := range hosts {
		for pattern := range h.Patterns() {
			if pattern != h {
				under[pattern] = append(under[pattern], h)
			}
		}
	}
	return under
}

// misdirected returns the hosts whose requests do not belong to the listener of a host: those of
// the other listeners. If they are too many, "*" stands for all that the listener's own host does
// not cover, so that hosts of no listener get 421 too; the specification wants 404 for these.
func (p *portHosts) misdirected(own model.Host) []model.Host {
	switch {
	case p.under == nil:
		return slices.DeleteFunc(slices.Clone(p.all), func(h model.Host) bool { return h == own })
	case own == "*":
		return p.under[own]
	}
	return append([]model.Host{"*"}, p.under[own]...)
}
