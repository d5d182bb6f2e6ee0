package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/proto"
)

// none stands in a cell for what there is not.
const none = "-"

// clusterName is a cluster's name in its parts:
// "outbound|9080|v1|reviews.default.svc.cluster.local".
type clusterName struct {
	direction, subset, host string
	port                    int
}

func parseClusterName(name string) clusterName {
	parts := strings.Split(name, "|")
	if len(parts) != 4 {
		return clusterName{host: name}
	}
	port, _ := strconv.Atoi(parts[1])
	return clusterName{direction: parts[0], port: port, subset: parts[2], host: parts[3]}
}

// String returns the name as people read it: "reviews.default.svc.cluster.local:9080/v1".
func (c clusterName) String() string {
	text := cmp.Or(c.host, c.direction)
	if c.port != 0 {
		text += ":" + strconv.Itoa(c.port)
	}
	if c.subset != "" {
		text += "/" + c.subset
	}
	return text
}

func shortCluster(name string) string { return parseClusterName(name).String() }

func clusterRows(m proto.Message) []configRow {
	c, ok := m.(*clusterv3.Cluster)
	if !ok {
		return nil
	}
	kind := c.GetType().String()
	if t := c.GetClusterType(); t != nil {
		kind = t.GetName()
	}
	name := parseClusterName(c.GetName())
	port := none
	if name.port != 0 {
		port = strconv.Itoa(name.port)
	}
	return []configRow{{
		cells: []string{
			name.host, port, cmp.Or(name.subset, none), cmp.Or(name.direction, none), kind,
			cmp.Or(owner(c.GetMetadata()), none),
		},
		hosts: []string{name.host}, port: name.port, direction: name.direction,
	}}
}

// owner returns the object that a resource comes from, as name.namespace: Istio's tools find its
// path in the metadata.
func owner(m *corev3.Metadata) string {
	path := m.GetFilterMetadata()["istio"].GetFields()["config"].GetStringValue()
	_, rest, ok := strings.Cut(path, "/namespaces/")
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return ""
	}
	return parts[2] + "." + parts[0]
}

func listenerRows(m proto.Message) []configRow {
	l, ok := m.(*listenerv3.Listener)
	if !ok {
		return nil
	}
	a := l.GetAddress().GetSocketAddress()
	direction := strings.ToLower(l.GetTrafficDirection().String())
	var rows []configRow
	add := func(chain *listenerv3.FilterChain, match string) {
		destination, hosts := chainDestination(chain)
		rows = append(rows, configRow{
			cells: []string{a.GetAddress(), strconv.Itoa(int(a.GetPortValue())), match, destination},
			hosts: append(hosts, chain.GetFilterChainMatch().GetServerNames()...),
			port:  int(a.GetPortValue()), direction: direction,
		})
	}
	for _, chain := range l.GetFilterChains() {
		add(chain, chainMatch(chain.GetFilterChainMatch()))
	}
	if chain := l.GetDefaultFilterChain(); chain != nil {
		add(chain, "ALL")
	}
	return rows
}

// chainMatch returns which connections a filter chain takes.
func chainMatch(m *listenerv3.FilterChainMatch) string {
	var parts []string
	if p := m.GetDestinationPort(); p != nil {
		parts = append(parts, fmt.Sprintf("port %d", p.GetValue()))
	}
	if m.GetTransportProtocol() != "" {
		parts = append(parts, m.GetTransportProtocol())
	}
	if names := m.GetServerNames(); len(names) > 0 {
		parts = append(parts, "SNI "+someOf(names))
	}
	if protocols := m.GetApplicationProtocols(); len(protocols) > 0 {
		parts = append(parts, "ALPN "+someOf(protocols))
	}
	ranges := func(what string, list []*corev3.CidrRange) {
		var texts []string
		for _, r := range list {
			texts = append(texts, fmt.Sprintf("%s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()))
		}
		if len(texts) > 0 {
			parts = append(parts, what+" "+someOf(texts))
		}
	}
	ranges("to", m.GetPrefixRanges())
	ranges("from", m.GetSourcePrefixRanges())
	return cmp.Or(strings.Join(parts, "; "), "ALL")
}

// chainDestination returns where a filter chain sends connections, and the hosts of that.
func chainDestination(c *listenerv3.FilterChain) (destination string, hosts []string) {
	for _, f := range c.GetFilters() {
		m, err := f.GetTypedConfig().UnmarshalNew()
		if err != nil {
			continue
		}
		switch m := m.(type) {
		case *hcmv3.HttpConnectionManager:
			if rds := m.GetRds().GetRouteConfigName(); rds != "" {
				return "route " + rds, nil
			}
			return inlineDestination(m)
		case *tcpv3.TcpProxy:
			if name := m.GetCluster(); name != "" {
				return "cluster " + shortCluster(name), []string{parseClusterName(name).host}
			}
			var texts []string
			for _, w := range m.GetWeightedClusters().GetClusters() {
				texts = append(texts, fmt.Sprintf("%s (%d)", shortCluster(w.GetName()), w.GetWeight()))
				hosts = append(hosts, parseClusterName(w.GetName()).host)
			}
			return "cluster " + strings.Join(texts, ", "), hosts
		}
	}
	return none, nil
}

// inlineDestination returns where an HTTP connection manager with its own routes sends requests.
func inlineDestination(m *hcmv3.HttpConnectionManager) (destination string, hosts []string) {
	var texts []string
	for _, row := range routeRows(m.GetRouteConfig()) {
		if text := row.cells[3]; !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
		hosts = append(hosts, row.hosts...)
	}
	return "HTTP " + someOf(texts), hosts
}

func endpointRows(m proto.Message) []configRow {
	cla, ok := m.(*endpointv3.ClusterLoadAssignment)
	if !ok {
		return nil
	}
	name := parseClusterName(cla.GetClusterName())
	row := func(cells ...string) configRow {
		return configRow{
			cells: append(cells, name.String()), hosts: []string{name.host}, port: name.port, direction: name.direction,
		}
	}
	var rows []configRow
	for _, g := range cla.GetEndpoints() {
		l := g.GetLocality()
		where := strings.Trim(strings.Join([]string{l.GetRegion(), l.GetZone(), l.GetSubZone()}, "/"), "/")
		for _, e := range g.GetLbEndpoints() {
			health := e.GetHealthStatus().String()
			if e.GetHealthStatus() == corev3.HealthStatus_UNKNOWN {
				health = "HEALTHY"
			}
			rows = append(rows, row(
				addressText(e.GetEndpoint().GetAddress()), health, weightText(e), cmp.Or(where, none),
				cmp.Or(workload(e.GetMetadata()), none),
			))
		}
	}
	if len(rows) == 0 {
		rows = append(rows, row("(none)", none, none, none, none))
	}
	return rows
}

func weightText(e *endpointv3.LbEndpoint) string {
	return strconv.FormatUint(uint64(max(e.GetLoadBalancingWeight().GetValue(), 1)), 10)
}

// workload returns the workload of an endpoint as name.namespace.
func workload(m *corev3.Metadata) string {
	parts := strings.Split(m.GetFilterMetadata()["istio"].GetFields()["workload"].GetStringValue(), ";")
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + "." + parts[1]
}

func addressText(a *corev3.Address) string {
	switch {
	case a.GetPipe() != nil:
		return a.GetPipe().GetPath()
	case a.GetEnvoyInternalAddress() != nil:
		return "internal " + a.GetEnvoyInternalAddress().GetServerListenerName()
	}
	s := a.GetSocketAddress()
	return fmt.Sprintf("%s:%d", s.GetAddress(), s.GetPortValue())
}

// someOf joins words; of many it counts those after the second.
func someOf(words []string) string {
	const shown = 2
	if len(words) <= shown {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s +%d", strings.Join(words[:shown], ", "), len(words)-shown)
}
