package validate

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// checkContested reports routes of the Gateway API of which another route of the same listener
// gets all connections or requests. The specification has the oldest one win, then the first by
// name, and both are Accepted, so that no status says so. The cost follows the routes of the hosts
// that changed.
func (c *Checker) checkContested(snap *state.Snapshot, d *state.Delta) {
	hosts, listeners := map[model.Host]bool{}, map[string]bool{}
	note := func(v *model.VirtualService, left bool) {
		if v == nil || !isAttached(v) {
			return
		}
		for _, at := range v.Gateways {
			if at == model.Mesh {
				continue
			}
			for _, h := range v.Hosts {
				if left {
					c.store.setRelation(contestOf(v, at, h), nil)
				}
				if v.Kind == kinds.TCPRoute {
					listeners[at] = true
				} else {
					hosts[h] = true
				}
			}
		}
	}
	for _, p := range d.VirtualServices {
		note(p.Old, true)
		note(p.New, false)
	}
	for at := range listeners {
		first := contest{}
		for v := range snap.VirtualServicesAt(at) {
			for _, h := range v.Hosts {
				c.settle(first, v, at, h)
			}
		}
	}
	for h := range hosts {
		first := map[string]contest{} // by listener
		for v := range snap.VirtualServicesOf(h) {
			if !isAttached(v) || v.Kind == kinds.TCPRoute {
				continue
			}
			for _, at := range v.Gateways {
				if at == model.Mesh {
					continue
				}
				if first[at] == nil {
					first[at] = contest{}
				}
				c.settle(first[at], v, at, h)
			}
		}
	}
}

// contestOf is the relation of a route to others of a listener with the same host.
func contestOf(v *model.VirtualService, listener string, h model.Host) relation {
	return relation{v.Key(), fmt.Sprintf("contest of %s at %s", h, listener)}
}

// contested is what only one route gets: the connections of a host without a match, and otherwise
// the requests that a match is for.
type contested struct {
	host  model.Host
	match *model.HTTPMatch // canonical
}

// contest is who gets what at one listener.
type contest map[contested]source.Key

// settle takes the next route of a listener in the order of the specification.
func (c *Checker) settle(first contest, v *model.VirtualService, listener string, h model.Host) {
	var problems []source.Problem
	if v.Kind == kinds.TLSRoute || v.Kind == kinds.TCPRoute {
		problems = first.connections(v, h)
	} else {
		problems = first.requests(v, h)
	}
	c.store.setRelation(contestOf(v, listener, h), problems)
}

func (f contest) connections(v *model.VirtualService, h model.Host) []source.Problem {
	if len(v.TCP) == 0 {
		return nil
	}
	by, taken := f.take(contested{host: h}, v.Key())
	if !taken {
		return nil
	}
	if v.Kind == kinds.TCPRoute {
		return []source.Problem{{
			Severity: source.Warning, Path: "spec.parentRefs",
			Message: fmt.Sprintf("%s is at the same listener and comes first; it gets all connections", by),
			Want:    "one TCPRoute for each listener",
		}}
	}
	return []source.Problem{{
		Severity: source.Warning, Path: "spec.hostnames", Value: string(h),
		Message: fmt.Sprintf("%s has this host at the same listener and comes first; it gets all connections", by),
		Want:    "one TLSRoute for each host",
	}}
}

// requests returns the rules of a route that get no request, since others have all their matches.
// Rules of one route are told apart in the conversion.
func (f contest) requests(v *model.VirtualService, h model.Host) []source.Problem {
	var problems []source.Problem
	for i, r := range v.HTTP {
		var by source.Key
		lost := 0
		for _, m := range r.Matches {
			if owner, taken := f.take(contested{h, m}, v.Key()); taken {
				by = owner
				lost++
			}
		}
		if lost > 0 && lost == len(r.Matches) {
			problems = append(problems, source.Problem{
				Severity: source.Warning, Path: fmt.Sprintf("spec.rules[%d].matches", i), Value: string(h),
				Message: fmt.Sprintf("%s has the same matches for this host and comes first; it gets all requests", by),
				Want:    "other matches, or another host",
			})
		}
	}
	return problems
}

// take returns which other object has something already, and otherwise gives it to this one.
func (f contest) take(what contested, by source.Key) (owner source.Key, taken bool) {
	owner, taken = f[what]
	if !taken {
		f[what] = by
	}
	return owner, taken && owner != by
}
