package compile_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/compile"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/source/manifest"
	"github.com/lateen-mesh/lateen/internal/testkit/golden"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/translatetest"
	"github.com/lateen-mesh/lateen/internal/xds/nametable"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// caseProxy is the first document of a case: for which proxy its manifests are compiled.
type caseProxy struct {
	Type          string            `json:"type"` // sidecar (the default) or router
	Namespace     string            `json:"namespace"`
	Name          string            `json:"name"`
	Labels        map[string]string `json:"labels"`
	HTTPProxyPort uint16            `json:"httpProxyPort"`
	Intercepted   bool              `json:"intercepted"`
	AllClusters   bool              `json:"allClusters"`
	Agent         bool              `json:"agent"`
	DNSCapture    bool              `json:"dnsCapture"`
	DynamicDNS    bool              `json:"dynamicDNS"`
	Account       string            `json:"account"` // that it proves to have; else it gets no Secrets
	Stack         string            `json:"stack"`   // a key of translatetest.Stacks
	Address       string            `json:"address"` // 127.32.0.1 if it is not said
}

// TestGolden compiles the manifests of testdata/<case>.in.yaml for one proxy and compares what it
// gets, in short, with testdata/<case>.out.txt. A case is added by adding its input and running the
// test with -update.
func TestGolden(t *testing.T) { golden.Cases(t, ".in.yaml", ".out.txt", compileCase) }

func compileCase(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	header, manifests, ok := bytes.Cut(data, []byte("\n---\n"))
	require.True(t, ok, "a case begins with a document that describes the proxy")
	var p caseProxy
	require.NoError(t, yaml.UnmarshalStrict(header, &p))
	documents, problems := manifest.Read(path, manifests)
	require.Empty(t, problems)

	converter, writer := convert.New(convert.Options{}), state.NewWriter()
	var updates []state.Update
	for _, d := range documents {
		result := converter.Convert(d.Change(d.Object.GetCreationTimestamp().Time), model.DefaultMesh())
		updates = append(updates, state.Update{Key: d.Key, Objects: result.Objects})
	}
	compiler := compile.NewCompiler(compile.Refusals{
		Endpoint: func(e model.Endpoint, err error) { t.Errorf("%v: %v", e, err) },
		Resource: func(name string, err error) { t.Errorf("%s: %v", name, err) },
		Patch:    func(r compile.RefusedPatch) { t.Errorf("%+v", r) },
	})
	_, delta := writer.Apply(updates)
	compiler.Advance(delta, func(compile.Step) {})
	var out strings.Builder
	var conflicts []source.Problem
	compiler.Tell(func(appeared, _ []source.Problem) { conflicts = append(conflicts, appeared...) })
	compiler.Join(p.facts(), func(_ *compile.Member, placed compile.Placement) {
		describe(t, &out, placed)
		checkRefs(t, placed.State)
	})
	for _, c := range conflicts {
		fmt.Fprintln(&out, "conflict:", c)
	}
	return out.String()
}

func (p caseProxy) facts() compile.Facts {
	f := compile.Facts{Account: p.Account, Proxy: scope.Proxy{
		Address:   cmp.Or(p.Address, "127.32.0.1"),
		Namespace: p.Namespace,
		Name:      p.Name,
		Labels:    model.LabelsOf(p.Labels),
		Settings: scope.Settings{
			HTTPProxyPort: p.HTTPProxyPort,
			Intercepted:   p.Intercepted,
			AllClusters:   p.AllClusters,
			Agent:         p.Agent,
			DNSCapture:    p.DNSCapture,
			DynamicDNS:    p.DynamicDNS,
			Stack:         translatetest.Stacks[p.Stack],
		},
	}}
	if p.Account != "" {
		f.Proxy.Settings.Credentials = scope.AllCredentials
	}
	if p.Type == "router" {
		f.Proxy.Type = scope.Router
	}
	return f
}

// describe writes what a person would look for: names, domains, where requests go, which endpoints
// there are.
func describe(t *testing.T, out *strings.Builder, p compile.Placement) {
	for typ, set := range p.State.Sets() {
		if resource.Type(typ) == resource.Route {
			set = p.State.Tables()
		}
		for _, name := range set.Names() {
			body := p.Overlay.Body(resource.Type(typ), set.Get(name))
			switch resource.Type(typ) {
			case resource.Cluster:
				c := decode(t, body, &clusterv3.Cluster{})
				fmt.Fprintf(out, "cluster %s %s%s", name, c.GetType(), familyText(c))
				for _, m := range c.GetTransportSocketMatches() {
					fmt.Fprint(out, " ", m.GetName(), believed(t, m.GetTransportSocket()))
				}
				fmt.Fprint(out, believed(t, c.GetTransportSocket()))
				fmt.Fprintln(out)
				if looksUpOthers(c) {
					describeEndpoints(out, c.GetLoadAssignment())
				}
			case resource.Endpoint:
				describeEndpoints(out, decode(t, body, &endpointv3.ClusterLoadAssignment{}))
			case resource.Listener:
				l := decode(t, body, &listenerv3.Listener{})
				a := l.GetAddress().GetSocketAddress()
				fmt.Fprintf(out, "listener %s at %s", name, hostPort(a))
				for _, more := range l.GetAdditionalAddresses() {
					fmt.Fprintf(out, " and %s", hostPort(more.GetAddress().GetSocketAddress()))
				}
				fmt.Fprintln(out)
				if bytes.Contains(body, []byte("extensions.filters.http.rbac")) {
					fmt.Fprintln(out, "  refuses")
				}
				if bytes.Contains(body, []byte("extensions.filters.http.grpc_web")) {
					fmt.Fprintln(out, "  gRPC-Web")
				}
				if bytes.Contains(body, []byte(pb.DynamicDNSFilter)) {
					fmt.Fprintln(out, "  looks names up")
				}
				for _, c := range l.GetFilterChains() {
					fmt.Fprintf(out, "  chain %s%s%s\n", c.GetName(), chainText(c.GetFilterChainMatch()), leadsTo(t, c))
				}
				if c := l.GetDefaultFilterChain(); c != nil {
					fmt.Fprintf(out, "  else %s%s\n", c.GetName(), leadsTo(t, c))
				}
			case resource.Route:
				describeRoutes(out, decode(t, body, &routev3.RouteConfiguration{}))
			case resource.Name:
				describeName(t, out, body)
			}
		}
	}
}

func describeName(t *testing.T, out *strings.Builder, body []byte) {
	names, err := nametable.Parse(body)
	require.NoError(t, err)
	for _, n := range names {
		fmt.Fprintf(out, "name %s %v %s", n.Host, n.IPs, n.Registry)
		if n.Namespace != "" {
			fmt.Fprintf(out, " %s in %s", n.ShortName, n.Namespace)
		}
		fmt.Fprintln(out)
	}
}

// believed are the names of which a server must have one.
func believed(t *testing.T, socket *corev3.TransportSocket) string {
	if socket == nil {
		return ""
	}
	c := decode(t, socket.GetTypedConfig().GetValue(), &tlsv3.UpstreamTlsContext{}).GetCommonTlsContext()
	check := c.GetCombinedValidationContext().GetDefaultValidationContext()
	if check == nil {
		check = c.GetValidationContext()
	}
	var names []string
	for _, n := range check.GetMatchTypedSubjectAltNames() {
		names = append(names, n.GetMatcher().GetExact())
	}
	if names = slices.Compact(names); len(names) == 0 {
		return " of anybody"
	}
	return " of " + strings.Join(names, " ")
}

// familyText is by which families a cluster looks names up and from where it calls, if that is not
// by IPv4 from anywhere.
func familyText(c *clusterv3.Cluster) string {
	text := ""
	if f := c.GetDnsLookupFamily(); f != clusterv3.Cluster_V4_ONLY && c.GetType() != clusterv3.Cluster_EDS &&
		f != clusterv3.Cluster_AUTO {
		text += " " + f.String()
	}
	if from := c.GetUpstreamBindConfig(); from != nil && (len(
		from.GetExtraSourceAddresses(),
	) > 0 || from.GetSourceAddress().GetAddress() != "127.0.0.6") {
		text += " from " + from.GetSourceAddress().GetAddress()
		for _, more := range from.GetExtraSourceAddresses() {
			text += " or " + more.GetAddress().GetAddress()
		}
	}
	return text
}

func decode[M proto.Message](t *testing.T, body []byte, m M) M {
	require.NoError(t, proto.Unmarshal(body, m))
	return m
}

func chainText(m *listenerv3.FilterChainMatch) string {
	text := fmt.Sprintf(" sni=%v", m.GetServerNames())
	if p := m.GetDestinationPort(); p != nil {
		text += fmt.Sprint(" port=", p.GetValue())
	}
	for _, r := range m.GetPrefixRanges() {
		text += fmt.Sprintf(" %s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue())
	}
	if m.GetTransportProtocol() != "" {
		text += " " + m.GetTransportProtocol()
	}
	if len(m.GetApplicationProtocols()) > 0 {
		text += fmt.Sprint(" ", m.GetApplicationProtocols())
	}
	return text
}

// leadsTo are the route tables and clusters that a chain names.
func leadsTo(t *testing.T, c *listenerv3.FilterChain) string {
	var to []string
	for _, f := range c.GetFilters() {
		config, err := f.GetTypedConfig().UnmarshalNew()
		require.NoError(t, err)
		switch config := config.(type) {
		case *hcmv3.HttpConnectionManager:
			if name := config.GetRds().GetRouteConfigName(); name != "" {
				to = append(to, "routes "+name)
			} else {
				to = append(to, config.GetRouteConfig().GetVirtualHosts()[0].GetRoutes()[0].GetRoute().GetCluster())
			}
		case *tcpv3.TcpProxy:
			to = append(to, config.GetCluster())
			for _, w := range config.GetWeightedClusters().GetClusters() {
				to = append(to, fmt.Sprintf("%s×%d", w.GetName(), w.GetWeight()))
			}
		}
	}
	return " -> " + strings.Join(to, " ")
}

func describeEndpoints(out *strings.Builder, a *endpointv3.ClusterLoadAssignment) {
	var hosts []string
	for _, g := range a.GetEndpoints() {
		place := ""
		if l := g.GetLocality(); l != nil {
			place = " at " + model.Locality{Region: l.GetRegion(), Zone: l.GetZone(), Subzone: l.GetSubZone()}.String()
		}
		if g.GetPriority() != 0 {
			place += fmt.Sprint(" priority ", g.GetPriority())
		}
		if w := g.GetLoadBalancingWeight(); w != nil {
			place += fmt.Sprint(" weight ", w.GetValue())
		}
		for _, e := range g.GetLbEndpoints() {
			host := hostPort(e.GetEndpoint().GetAddress().GetSocketAddress())
			for _, more := range e.GetEndpoint().GetAdditionalAddresses() {
				host += " or " + hostPort(more.GetAddress().GetSocketAddress())
			}
			host += " " + e.GetHealthStatus().String() + place
			if e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"] != nil {
				host += " in TLS"
			}
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	fmt.Fprintf(out, "endpoints %s %v\n", a.GetClusterName(), hosts)
}

// looksUpOthers reports whether a cluster looks up anything but the host itself, or some of its
// names have a place.
func looksUpOthers(c *clusterv3.Cluster) bool {
	if c.GetType() != clusterv3.Cluster_STRICT_DNS && c.GetType() != clusterv3.Cluster_LOGICAL_DNS {
		return false
	}
	for _, g := range c.GetLoadAssignment().GetEndpoints() {
		for _, e := range g.GetLbEndpoints() {
			if !strings.HasSuffix(c.GetName(), "|"+e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()) {
				return true
			}
		}
	}
	return false
}

func hostPort(a *corev3.SocketAddress) string {
	return net.JoinHostPort(a.GetAddress(), fmt.Sprint(a.GetPortValue()))
}

func describeRoutes(out *strings.Builder, rc *routev3.RouteConfiguration) {
	fmt.Fprintf(out, "routes %s\n", rc.GetName())
	vhosts := slices.SortedFunc(
		slices.Values(rc.GetVirtualHosts()),
		func(a, b *routev3.VirtualHost) int { return strings.Compare(a.GetName(), b.GetName()) },
	)
	for _, v := range vhosts {
		fmt.Fprintf(out, "  %s\n    %s\n", v.GetName(), strings.Join(v.GetDomains(), " "))
		if v.GetTypedPerFilterConfig()[pb.GRPCWebFilter] != nil {
			fmt.Fprintln(out, "    gRPC-Web")
		}
		if v.GetTypedPerFilterConfig()[pb.DynamicDNSFilter] != nil {
			fmt.Fprintln(out, "    looks names up")
		}
		for _, r := range v.GetRoutes() {
			fmt.Fprintf(out, "    %s -> %s\n", matchText(r.GetMatch()), actionText(r))
		}
	}
}

func matchText(m *routev3.RouteMatch) string {
	text := m.GetPrefix() + m.GetPath() + m.GetPathSeparatedPrefix() + m.GetSafeRegex().GetRegex()
	for _, h := range m.GetHeaders() {
		text += " " + h.GetName()
	}
	return text
}

func actionText(r *routev3.Route) string {
	switch {
	case r.GetDirectResponse() != nil:
		return fmt.Sprint(r.GetDirectResponse().GetStatus())
	case r.GetRedirect() != nil:
		return "redirect"
	case r.GetRoute().GetWeightedClusters() != nil:
		var parts []string
		for _, c := range r.GetRoute().GetWeightedClusters().GetClusters() {
			parts = append(parts, fmt.Sprintf("%s×%d", c.GetName(), c.GetWeight().GetValue()))
		}
		return strings.Join(parts, " ")
	}
	return r.GetRoute().GetCluster()
}
