package envoymodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// Summary is what an Envoy's /config_dump and /clusters show of what it got over xDS: versions by
// name.
type Summary struct {
	Clusters, WarmingClusters map[string]string
	// Behind a listener's version stands what its filter does: (STATISTICS PREFIX>ROUTES),
	// (STATISTICS PREFIX>>CLUSTER), and behind the routes the filters that come on their own
	// (+FILTER).
	Listeners, WarmingListeners map[string]string
	// Behind the version of a table with VHDS stand its virtual hosts with their contents: [v1:1
	// r1/v2:3], by DescribeHosts.
	Routes map[string]string
	// Filters are the newest of those that came on their own, in force or refused.
	Filters map[string]string
	// Hosts are the ports of each active cluster's endpoints, sorted.
	Hosts map[string][]string
}

// lines is the summary in the form of scripts; what there is none of has no line.
func (s Summary) lines() []string {
	var out []string
	add := func(what string, words []string) {
		if len(words) > 0 {
			slices.Sort(words)
			out = append(out, what+" "+strings.Join(words, " "))
		}
	}
	add("clusters", versions(s.Clusters))
	add("warming clusters", versions(s.WarmingClusters))
	var hosts []string
	for name, ports := range s.Hosts {
		hosts = append(hosts, name+"="+strings.Join(ports, ","))
	}
	add("hosts", hosts)
	add("listeners", versions(s.Listeners))
	add("warming listeners", versions(s.WarmingListeners))
	add("routes", versions(s.Routes))
	add("filters", versions(s.Filters))
	return out
}

func versions(of map[string]string) []string {
	var out []string
	for name, version := range of {
		out = append(out, name+":"+version)
	}
	return out
}

// DescribeHosts are the virtual hosts of a table that has VHDS, in the form of scripts, and of any
// other nothing.
func DescribeHosts(table *routev3.RouteConfiguration) string {
	if table.GetVhds() == nil {
		return ""
	}
	var words []string
	for _, v := range table.GetVirtualHosts() {
		prefix := ""
		for _, r := range v.GetRoutes() {
			prefix += r.GetMatch().GetPrefix()
		}
		words = append(words, v.GetName()+":"+strings.TrimPrefix(prefix, "/"))
	}
	slices.Sort(words)
	return "[" + strings.Join(words, " ") + "]"
}

func describeAll(requests []proto.Message) []string {
	var out []string
	for _, r := range requests {
		out = append(out, Describe(r))
	}
	return out
}

// Describe is a request in the form of scripts. Of a refusal it says which names the message lists
// as Envoy lists clusters and listeners; the rest of the message is free text.
//
//	> cds init[e1:1]            delta: the first of its type on a stream, with what the client has
//	> eds +e1 -e2 ack e3        delta
//	> cds nack c4 lists[e1 e2]
//	> eds [e1 e2] v3 e1         state of the world: names, version, nonce
func Describe(request proto.Message) string {
	var b strings.Builder
	switch r := request.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		b.WriteString("> " + shortURL(r.GetTypeUrl()))
		for _, name := range slices.Sorted(slices.Values(r.GetResourceNamesSubscribe())) {
			b.WriteString(" +" + strings.TrimPrefix(name, collectionPrefix))
		}
		for _, name := range slices.Sorted(slices.Values(r.GetResourceNamesUnsubscribe())) {
			b.WriteString(" -" + strings.TrimPrefix(name, collectionPrefix))
		}
		if len(r.GetInitialResourceVersions()) > 0 {
			fmt.Fprintf(&b, " init[%s]", strings.Join(
				slices.Sorted(slices.Values(versions(r.GetInitialResourceVersions()))), " ",
			))
		}
		if r.GetErrorDetail() != nil {
			b.WriteString(" nack " + r.GetResponseNonce() + listed(r.GetErrorDetail().GetMessage()))
		} else if r.GetResponseNonce() != "" {
			b.WriteString(" ack " + r.GetResponseNonce())
		}
	case *discoveryv3.DiscoveryRequest:
		b.WriteString("> " + shortURL(r.GetTypeUrl()))
		fmt.Fprintf(&b, " [%s]", strings.Join(slices.Sorted(slices.Values(r.GetResourceNames())), " "))
		if r.GetVersionInfo() != "" {
			b.WriteString(" " + r.GetVersionInfo())
		}
		if r.GetErrorDetail() != nil {
			b.WriteString(" nack")
		}
		if r.GetResponseNonce() != "" {
			b.WriteString(" " + r.GetResponseNonce())
		}
		b.WriteString(listed(r.GetErrorDetail().GetMessage()))
	}
	return b.String()
}

func shortURL(url string) string {
	if k, ok := KindByURL(url); ok {
		return k.String()
	}
	return url
}

// listed are the names in Envoy's list of refused clusters or listeners.
func listed(message string) string {
	for _, prefix := range []string{clustersRefused, listenersRefused} {
		list, ok := strings.CutPrefix(message, prefix)
		if !ok {
			continue
		}
		names := map[string]bool{}
		for part := range strings.SplitSeq(strings.ReplaceAll(list, "\n", ", "), ", ") {
			if name, _, ok := strings.Cut(part, ": "); ok && !strings.Contains(name, " ") {
				names[name] = true
			}
		}
		return fmt.Sprintf(" lists[%s]", strings.Join(slices.Sorted(maps.Keys(names)), " "))
	}
	return ""
}

// The beginnings of Envoy's messages that list what it refused: clusters behind commas, listeners
// on lines of their own.
const (
	clustersRefused  = "Error adding/updating cluster(s) "
	listenersRefused = "Error adding/updating listener(s) "
)
