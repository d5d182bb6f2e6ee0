package compile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/mesh/scope"
)

// A gateway's port may have thousands of servers with TLS, each with a route table and a virtual
// host of its own. So the servers of such a table are found by its name: walking all of them for
// each virtual host would grow with the square of their number.

// ownTablePrefix begins the names of the route tables that one server has for itself.
const ownTablePrefix = "https."

// plaintextTable is the name of the route table that all servers for HTTP in plaintext share on a
// bound port of one address.
func plaintextTable(at scope.Address) string {
	return "http." + portText(at.Port) + bindSuffix(at.Bind)
}

// bindSuffix ends the names of the route tables of servers with an address of their own.
func bindSuffix(bind string) string {
	if bind == "" {
		return ""
	}
	return "." + bind
}

// portsOfTable returns the ports of the servers that share a route table for HTTP in plaintext, if
// one of them is not the bound one: callers know a gateway's port by that of its Service. Of other
// tables it returns none.
func portsOfTable(s *scope.Scope, table string) (ports []uint16) {
	text, is := strings.CutPrefix(table, "http.")
	number, bind, _ := strings.Cut(text, ".")
	bound, err := strconv.ParseUint(number, 10, 16)
	if !is || err != nil {
		return nil
	}
	for _, sv := range serversOfTable(s, scope.Address{Port: uint16(bound), Bind: bind}, table) {
		if !slices.Contains(ports, sv.Port) {
			ports = append(ports, sv.Port)
		}
	}
	if !slices.ContainsFunc(ports, func(port uint16) bool { return port != uint16(bound) }) {
		return nil
	}
	slices.Sort(ports)
	return ports
}

// serversOfTable returns the servers of a route table, in the total order. A broken server stays
// closed and is left out.
func serversOfTable(s *scope.Scope, at scope.Address, table string) []server {
	if own, is := strings.CutPrefix(table, ownTablePrefix); is {
		return serversOfOwnTable(s, at, own)
	}
	if table != plaintextTable(at) {
		return nil
	}
	return slices.DeleteFunc(serversOn(s, at), func(sv server) bool {
		return sv.Broken != "" || sv.TLS != nil || !sv.Protocol.IsHTTP()
	})
}

// serversOfOwnTable is serversOfTable for the rest of a name behind ownTablePrefix (tableOn). Names
// of ports and of Gateways may have dots, so each part that may be the Gateway's name is looked up.
func serversOfOwnTable(s *scope.Scope, address scope.Address, table string) []server {
	number, rest, _ := strings.Cut(strings.TrimSuffix(table, bindSuffix(address.Bind)), ".")
	end := strings.LastIndexByte(rest, '.')
	if end < 0 {
		return nil
	}
	names, namespace := rest[:end], rest[end+1:]
	var found []server
	for at := strings.IndexByte(names, '.'); at >= 0; at = nextDot(names, at) {
		g := s.Gateway(namespace + "/" + names[at+1:])
		if g == nil || !s.Applies(g) {
			continue
		}
		for i := range g.Servers {
			sv := server{gateway: g, index: i, GatewayServer: &g.Servers[i]}
			if sv.Broken == "" && sv.TLS != nil && sv.Protocol.IsHTTP() && sv.PortName == names[:at] &&
				portText(sv.Port) == number && s.AddressOf(sv.GatewayServer) == address {
				found = append(found, sv)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b server) int { return a.gateway.Compare(&b.gateway.Meta) })
	return found
}

// nextDot returns where the next dot after one is, or -1.
func nextDot(s string, at int) int {
	next := strings.IndexByte(s[at+1:], '.')
	if next < 0 {
		return -1
	}
	return at + 1 + next
}
