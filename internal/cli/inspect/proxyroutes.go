package inspect

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
)

// routeRows returns a row for each destination of each route.
func routeRows(m proto.Message) []configRow {
	rc, ok := m.(*routev3.RouteConfiguration)
	if !ok {
		return nil
	}
	direction := "outbound"
	if strings.HasPrefix(rc.GetName(), "inbound") {
		direction = "inbound"
	}
	var rows []configRow
	for _, v := range rc.GetVirtualHosts() {
		add := func(match, destination, weight, from string) {
			rows = append(rows, configRow{
				cells: []string{
					rc.GetName(), domainsText(v.GetDomains()), match, destination, weight, cmp.Or(from, none),
				},
				hosts: hostsOf(v.GetDomains()), port: tablePort(rc.GetName()), direction: direction,
			})
		}
		for _, r := range v.GetRoutes() {
			match, from := routeMatch(r.GetMatch()), owner(r.GetMetadata())
			for _, d := range routeDestinations(r) {
				add(match, d.to, d.weight, from)
			}
		}
		if len(v.GetRoutes()) == 0 {
			add(none, none, none, "")
		}
	}
	return rows
}

// domainsText returns the first domain, and how many more there are: they are names of one host.
func domainsText(domains []string) string {
	switch len(domains) {
	case 0:
		return none
	case 1:
		return domains[0]
	}
	return fmt.Sprintf("%s +%d", domains[0], len(domains)-1)
}

// hostsOf returns domains without their ports.
func hostsOf(domains []string) []string {
	var hosts []string
	for _, d := range domains {
		if host, port, ok := strings.Cut(d, ":"); ok && !strings.Contains(port, ":") {
			d = host
		}
		hosts = append(hosts, d)
	}
	return hosts
}

// tablePort returns the port that the name of a route table ends with: "9080", "http.80",
// "inbound|80||", "details.default.svc.cluster.local:9080"; 0 without one.
func tablePort(name string) int {
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("|:.", r) }) {
		if port, err := strconv.Atoi(part); err == nil && port > 0 && port < 1<<16 {
			return port
		}
	}
	return 0
}

// destination is where a route sends requests, and with which weight.
type destination struct{ to, weight string }

func routeDestinations(r *routev3.Route) []destination {
	switch action := r.GetAction().(type) {
	case *routev3.Route_Redirect:
		return []destination{{redirectText(action.Redirect), none}}
	case *routev3.Route_DirectResponse:
		return []destination{{fmt.Sprintf("answer %d", action.DirectResponse.GetStatus()), none}}
	case *routev3.Route_Route:
		var all []destination
		for _, w := range action.Route.GetWeightedClusters().GetClusters() {
			weight := strconv.FormatUint(uint64(w.GetWeight().GetValue()), 10)
			all = append(all, destination{shortCluster(w.GetName()), weight})
		}
		if name := action.Route.GetCluster(); name != "" {
			all = append(all, destination{shortCluster(name), none})
		}
		if header := action.Route.GetClusterHeader(); header != "" {
			all = append(all, destination{"cluster of header " + header, none})
		}
		if len(all) > 0 {
			return all
		}
	}
	return []destination{{none, none}}
}

func redirectText(r *routev3.RedirectAction) string {
	text := "redirect"
	for _, part := range []string{
		r.GetSchemeRedirect(), r.GetHostRedirect(), r.GetPathRedirect(), r.GetPrefixRewrite(),
	} {
		if part != "" {
			text += " " + part
		}
	}
	if r.GetHttpsRedirect() {
		text += " https"
	}
	return text
}

// routeMatch returns which requests a route takes.
func routeMatch(m *routev3.RouteMatch) string {
	path := "/*"
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		path = p.Prefix + "*"
	case *routev3.RouteMatch_Path:
		path = p.Path
	case *routev3.RouteMatch_PathSeparatedPrefix:
		path = p.PathSeparatedPrefix + "[/*]"
	case *routev3.RouteMatch_SafeRegex:
		path = "~" + p.SafeRegex.GetRegex()
	case *routev3.RouteMatch_ConnectMatcher_:
		path = "CONNECT"
	}
	parts := []string{path}
	for _, h := range m.GetHeaders() {
		parts = append(parts, headerText(h))
	}
	for _, q := range m.GetQueryParameters() {
		parts = append(parts, "?"+q.GetName()+stringText(q.GetStringMatch()))
	}
	return strings.Join(parts, " ")
}

func headerText(h *routev3.HeaderMatcher) string {
	text := h.GetName() + stringText(h.GetStringMatch())
	if h.GetInvertMatch() {
		text = "not " + text
	}
	return text
}

// stringText returns what a matcher takes; empty if it takes all.
func stringText(m *matcherv3.StringMatcher) string {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return "=" + p.Exact
	case *matcherv3.StringMatcher_Prefix:
		return "=" + p.Prefix + "*"
	case *matcherv3.StringMatcher_Suffix:
		return "=*" + p.Suffix
	case *matcherv3.StringMatcher_Contains:
		return "=*" + p.Contains + "*"
	case *matcherv3.StringMatcher_SafeRegex:
		return "~" + p.SafeRegex.GetRegex()
	}
	return ""
}
