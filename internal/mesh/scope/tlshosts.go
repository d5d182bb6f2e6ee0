package scope

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// maxListedHosts is how many hosts with TLS a port may have so that each of its route tables lists
// those of all others. A port with n hosts would have n lists of n hosts otherwise.
const maxListedHosts = 64

// TLSHosts are the hosts that the servers with TLS at an address list, closed servers too. A
// connection belongs to the server with the most specific host that covers its server name.
type TLSHosts struct {
	listed map[model.Host]bool
	// under are the hosts below each wildcard of the port, without itself, sorted. Nil before the
	// first question.
	under map[model.Host][]model.Host
}

// TLSHostsOn returns the hosts of an address. They must not be changed.
func (s *Scope) TLSHostsOn(at Address) *TLSHosts {
	s.classOnly()
	if t := s.tlsHosts[at]; t != nil {
		return t
	}
	t := &TLSHosts{listed: map[model.Host]bool{}}
	for _, of := range s.ServersOn(at) {
		server := &of.Gateway.Servers[of.Index]
		if server.HasTLS() {
			for _, h := range server.Hosts {
				t.listed[h.Host] = true
			}
		}
	}
	if s.tlsHosts == nil {
		s.tlsHosts = map[Address]*TLSHosts{}
	}
	s.tlsHosts[at] = t
	return t
}

// Lists reports whether a server of the port lists a host.
func (t *TLSHosts) Lists(host model.Host) bool { return t.listed[host] }

// AreMany reports whether the hosts are too many to be listed at each server.
func (t *TLSHosts) AreMany() bool { return len(t.listed) > maxListedHosts }

// Narrowest returns the most specific host of the port that covers a host; "" if none does.
func (t *TLSHosts) Narrowest(host model.Host) model.Host {
	for pattern := range host.Patterns() {
		if t.listed[pattern] {
			return pattern
		}
	}
	return ""
}

// Beside returns the hosts whose requests may come to a server with these hosts and belong to
// others of the port. If they are too many, "*" stands for all that the server's own do not cover.
func (t *TLSHosts) Beside(own []model.ScopedHost) []model.Host {
	isOwn := func(host model.Host) bool {
		return slices.ContainsFunc(own, func(h model.ScopedHost) bool { return h.Host == host })
	}
	var beside []model.Host
	if !t.AreMany() {
		for host := range t.listed {
			if !isOwn(host) {
				beside = append(beside, host)
			}
		}
		return beside
	}
	if !isOwn("*") {
		beside = append(beside, "*")
	}
	for _, h := range own {
		for _, host := range t.below(h.Host) {
			if !isOwn(host) {
				beside = append(beside, host)
			}
		}
	}
	return beside
}

// below returns the hosts of the port that a wildcard covers, without itself.
func (t *TLSHosts) below(wildcard model.Host) []model.Host {
	if t.under == nil {
		t.under = map[model.Host][]model.Host{}
		for host := range t.listed {
			for pattern := range host.Patterns() {
				if pattern != host && t.listed[pattern] {
					t.under[pattern] = append(t.under[pattern], host)
				}
			}
		}
		for _, hosts := range t.under {
			slices.Sort(hosts)
		}
	}
	return t.under[wildcard]
}
