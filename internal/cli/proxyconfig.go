package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/cli/terminal"
)

// section is a kind of resource in a config dump: its message type, and how a row of its table is
// made.
type section struct {
	message proto.Message
	header  []string
	row     func(proto.Message) [][]string
}

var sections = map[string]section{
	"clusters":  {&clusterv3.Cluster{}, []string{"CLUSTER", "TYPE", "LB", "CONNECT TIMEOUT"}, clusterRow},
	"listeners": {&listenerv3.Listener{}, []string{"LISTENER", "ADDRESS", "CHAINS"}, listenerRow},
	"routes":    {&routev3.RouteConfiguration{}, []string{"TABLE", "VIRTUAL HOST", "DOMAINS", "ROUTES"}, routeRows},
	"endpoints": {&endpointv3.ClusterLoadAssignment{}, []string{
		"CLUSTER", "ENDPOINT", "HEALTH", "LOCALITY",
	}, endpointRows},
}

func newProxyConfig(out *terminal.Writer) *cobra.Command {
	var r remote
	var output string
	names := slices.Sorted(maps.Keys(sections))
	cmd := &cobra.Command{
		Use:     "proxy-config PROXY " + strings.Join(names, "|"),
		Aliases: []string{"pc"},
		Short:   "What a proxy was given: its clusters, listeners, routes or endpoints",
		Example: `  lateen proxy-config productpage-v1-7c9d8f6b5-x2x4q.default routes
  lateen proxy-config productpage clusters -o json    # a part of the name, if it fits one proxy`,
		Args: cobra.MatchAll(arguments("PROXY", strings.Join(names, "|")), func(_ *cobra.Command, args []string) error {
			if !slices.Contains(names, args[1]) {
				return fmt.Errorf("%q: want one of %s", args[1], strings.Join(names, ", "))
			}
			return nil
		}),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			switch len(args) {
			case 0:
				return r.connected(cmd), cobra.ShellCompDirectiveNoFileComp
			case 1:
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s := sections[args[1]]
			at, id, err := r.proxyNamed(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			body, err := at.get(cmd.Context(), "/debug/config_dump", url.Values{"proxyID": {id}})
			if err != nil {
				return err
			}
			found, err := resourcesIn(body, s.message)
			if err != nil {
				return err
			}
			return printSection(cmd, out, output, s, found)
		},
	}
	r.bind(cmd)
	bindOutput(cmd, &output)
	return cmd
}

// connected returns the names of connected proxies for completion in a shell, or none on errors.
func (r *remote) connected(cmd *cobra.Command) []string {
	report, err := askStatus(cmd.Context(), r)
	if err != nil {
		return nil
	}
	var ids []string
	for _, p := range report.Proxies {
		ids = append(ids, p.ProxyID)
	}
	return ids
}

// proxyNamed returns the only connected proxy whose name is or contains the given one, and the
// replica that serves it.
func (r *remote) proxyNamed(ctx context.Context, name string) (endpoint, string, error) {
	endpoints, err := r.endpoints(ctx)
	if err != nil {
		return endpoint{}, "", err
	}
	report, err := statusOf(ctx, endpoints)
	if err != nil {
		return endpoint{}, "", err
	}
	id, replica, err := report.proxyNamed(name)
	for _, e := range endpoints {
		if e.name == replica {
			return e, id, err
		}
	}
	return endpoint{}, "", err
}

// proxyNamed returns the name of the only proxy whose name is or contains the given one, and of its
// replica.
func (s *statusReport) proxyNamed(name string) (id, replica string, err error) {
	fits, all := map[string]string{}, map[string]string{}
	for _, p := range s.Proxies {
		all[p.ProxyID] = p.Replica
		if strings.Contains(p.ProxyID, name) {
			fits[p.ProxyID] = p.Replica
		}
	}
	if replica, ok := all[name]; ok {
		return name, replica, nil
	}
	names := func(of map[string]string) string {
		const shown = 20
		sorted := slices.Sorted(maps.Keys(of))
		if len(sorted) > shown {
			return fmt.Sprintf("%s and %d more", strings.Join(sorted[:shown], ", "), len(sorted)-shown)
		}
		return strings.Join(sorted, ", ")
	}
	switch {
	case len(all) == 0:
		err = errors.New("no proxy is connected")
	case len(fits) == 0:
		err = fmt.Errorf("no proxy %q is connected; want one of %s", name, names(all))
	case len(fits) > 1:
		err = fmt.Errorf("%q fits several proxies; want one of %s", name, names(fits))
	}
	if err != nil {
		for _, r := range s.Replicas {
			if r.Error != "" {
				err = fmt.Errorf("%w; replica %s was not asked: %s", err, r.Name, r.Error)
			}
		}
		return "", "", err
	}
	for id, replica = range fits {
	}
	return id, replica, nil
}

// resourcesIn finds the resources of a message type anywhere in a config dump.
func resourcesIn(body []byte, want proto.Message) ([]proto.Message, error) {
	dump := &adminv3.ConfigDump{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, dump); err != nil {
		return nil, fmt.Errorf("the config dump cannot be read: %w", err)
	}
	var found []proto.Message
	for _, c := range dump.GetConfigs() {
		m, err := c.UnmarshalNew()
		if err != nil {
			continue
		}
		walkAny(m.ProtoReflect(), func(a *anypb.Any) {
			if a.MessageIs(want) {
				if r, err := a.UnmarshalNew(); err == nil {
					found = append(found, r)
				}
			}
		})
	}
	return found, nil
}

func walkAny(m protoreflect.Message, f func(*anypb.Any)) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		f(a)
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				walkAny(v.List().Get(i).Message(), f)
			}
		default:
			walkAny(v.Message(), f)
		}
		return true
	})
}

func printSection(cmd *cobra.Command, out *terminal.Writer, output string, s section, found []proto.Message) error {
	if output == "table" {
		t := terminal.Table{Header: s.header}
		var rows [][]string
		for _, m := range found {
			rows = append(rows, s.row(m)...)
		}
		slices.SortFunc(rows, slices.Compare[[]string])
		for _, row := range rows {
			t.Row(row...)
		}
		out.Table(t)
		return nil
	}
	all := []any{}
	for _, m := range found {
		body, err := protojson.Marshal(m)
		if err != nil {
			return err
		}
		all = append(all, rawJSON(body))
	}
	return printAs(cmd.OutOrStdout(), output, all)
}

// rawJSON is encoded JSON.
type rawJSON []byte

// MarshalJSON implements json.Marshaler.
func (r rawJSON) MarshalJSON() ([]byte, error) { return r, nil }

func clusterRow(m proto.Message) [][]string {
	c, ok := m.(*clusterv3.Cluster)
	if !ok {
		return nil
	}
	kind := c.GetType().String()
	if t := c.GetClusterType(); t != nil {
		kind = t.GetName()
	}
	return [][]string{{c.GetName(), kind, c.GetLbPolicy().String(), c.GetConnectTimeout().AsDuration().String()}}
}

func listenerRow(m proto.Message) [][]string {
	l, ok := m.(*listenerv3.Listener)
	if !ok {
		return nil
	}
	a := l.GetAddress().GetSocketAddress()
	chains := len(l.GetFilterChains())
	if l.GetDefaultFilterChain() != nil {
		chains++
	}
	return [][]string{{l.GetName(), fmt.Sprintf("%s:%d", a.GetAddress(), a.GetPortValue()), fmt.Sprint(chains)}}
}

func routeRows(m proto.Message) [][]string {
	rc, ok := m.(*routev3.RouteConfiguration)
	if !ok {
		return nil
	}
	var rows [][]string
	for _, v := range rc.GetVirtualHosts() {
		rows = append(rows, []string{
			rc.GetName(), v.GetName(), strings.Join(v.GetDomains(), ", "), fmt.Sprint(len(v.GetRoutes())),
		})
	}
	return rows
}

func endpointRows(m proto.Message) [][]string {
	cla, ok := m.(*endpointv3.ClusterLoadAssignment)
	if !ok {
		return nil
	}
	var rows [][]string
	for _, g := range cla.GetEndpoints() {
		l := g.GetLocality()
		for _, e := range g.GetLbEndpoints() {
			a := e.GetEndpoint().GetAddress().GetSocketAddress()
			health := e.GetHealthStatus().String()
			if health == "UNKNOWN" {
				health = "HEALTHY"
			}
			where := strings.Trim(strings.Join([]string{l.GetRegion(), l.GetZone(), l.GetSubZone()}, "/"), "/")
			rows = append(rows, []string{
				cla.GetClusterName(), fmt.Sprintf("%s:%d", a.GetAddress(), a.GetPortValue()), health, where,
			})
		}
	}
	if len(rows) == 0 {
		rows = append(rows, []string{cla.GetClusterName(), "(none)", "", ""})
	}
	return rows
}
