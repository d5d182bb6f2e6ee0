package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// configDump writes what a proxy should have, in the form in which Envoy's own /config_dump says
// what it has. The two can be compared.
func (h handler) configDump(w http.ResponseWriter, r *http.Request) {
	c, ok := h.askedProxy(w, r)
	if !ok {
		return
	}
	forgotten, ok := h.askedTime(w, r, &c)
	if !ok {
		return
	}
	dump, err := dumpOf(c, wholeTables(c))
	if err == nil && len(forgotten) > 0 {
		var part *anypb.Any
		part, err = forgottenIn(forgotten)
		dump.Configs = append(dump.Configs, part)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeDump(w, c, dump)
}

func writeDump(w http.ResponseWriter, c serve.Client, dump *adminv3.ConfigDump) {
	body, err := render(dump)
	if err != nil {
		http.Error(w, fmt.Sprintf("config of %s cannot be shown: %v", c.Node.Name, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// resourcesOf writes the resources of one type that a proxy should have, in the form of a config
// dump.
func (h handler) resourcesOf(t resource.Type) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ok := h.askedProxy(w, r)
		if !ok {
			return
		}
		dump := &adminv3.ConfigDump{}
		eachResource(c, t, func(_, _ string, body *anypb.Any) { dump.Configs = append(dump.Configs, body) })
		writeDump(w, c, dump)
	}
}

// render returns the JSON of a message. protojson varies white space between builds; json.Indent
// makes it the same, so that dumps can be compared.
func render(m proto.Message) ([]byte, error) {
	body, err := protojson.MarshalOptions{Resolver: resolver{}}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, body, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// find returns the client with this name (pod.namespace) or node ID. If a proxy has several streams
// it takes the latest. A caller finds those alone that it may see.
func (h handler) find(by caller, id string) (found serve.Client, ok bool) {
	for _, c := range h.Fleet.Clients() {
		if by.maySee(c) && (c.Node.Name == id || c.Node.ID == id) && (!ok || c.ConnectedAt.After(found.ConnectedAt)) {
			found, ok = c, true
		}
	}
	return found, ok
}

// connected lists the connected proxies that a caller may see, 50 at most, for an error message.
func (h handler) connected(by caller) string {
	const limit = 50
	var names []string
	for _, c := range h.Fleet.Clients() {
		if by.maySee(c) {
			names = append(names, c.Node.Name)
		}
	}
	switch {
	case len(names) == 0:
		return "no proxy is connected"
	case len(names) > limit:
		return fmt.Sprintf("connected are %s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
	}
	return "connected are " + strings.Join(names, ", ")
}

// wholeTables returns a proxy's route tables with their virtual hosts, whatever form they went in.
func wholeTables(c serve.Client) (all []*adminv3.RoutesConfigDump_DynamicRouteConfig) {
	tables := c.State.Tables()
	for _, name := range tables.Names() {
		r := tables.Get(name)
		all = append(all, &adminv3.RoutesConfigDump_DynamicRouteConfig{
			VersionInfo: r.Version().String(), RouteConfig: &anypb.Any{TypeUrl: resource.Route.URL(), Value: r.Body()},
		})
	}
	return all
}

// ownTables returns a proxy's route tables as its own dump has them. One that takes virtual hosts
// as resources of their own names them so, and shows where a table has them from.
func ownTables(c serve.Client) (all []*adminv3.RoutesConfigDump_DynamicRouteConfig, err error) {
	if !c.Types[resource.VirtualHost].Subscribed {
		return wholeTables(c), nil
	}
	heads, hosts := c.State.Set(resource.Route), c.State.Set(resource.VirtualHost)
	for _, name := range heads.Names() {
		var table routev3.RouteConfiguration
		if err := proto.Unmarshal(heads.Get(name).Body(), &table); err != nil {
			return nil, fmt.Errorf("route table %s of %s: %w", name, c.Node.Name, err)
		}
		for r := range hosts.Under(name) {
			host := &routev3.VirtualHost{}
			if err := proto.Unmarshal(r.Body(), host); err != nil {
				return nil, fmt.Errorf("virtual host %s of %s: %w", r.Name(), c.Node.Name, err)
			}
			table.VirtualHosts = append(table.VirtualHosts, host)
		}
		body, err := anypb.New(&table)
		if err != nil {
			return nil, fmt.Errorf("route table %s of %s: %w", name, c.Node.Name, err)
		}
		all = append(all, &adminv3.RoutesConfigDump_DynamicRouteConfig{
			VersionInfo: heads.Get(name).Version().String(), RouteConfig: body,
		})
	}
	return all, nil
}

func dumpOf(c serve.Client, tables []*adminv3.RoutesConfigDump_DynamicRouteConfig) (*adminv3.ConfigDump, error) {
	clusters := &adminv3.ClustersConfigDump{}
	endpoints := &adminv3.EndpointsConfigDump{}
	listeners := &adminv3.ListenersConfigDump{}
	routes := &adminv3.RoutesConfigDump{}
	eachResource(c, resource.Cluster, func(_, version string, body *anypb.Any) {
		clusters.DynamicActiveClusters = append(clusters.DynamicActiveClusters,
			&adminv3.ClustersConfigDump_DynamicCluster{VersionInfo: version, Cluster: body})
	})
	eachResource(c, resource.Endpoint, func(_, version string, body *anypb.Any) {
		endpoints.DynamicEndpointConfigs = append(endpoints.DynamicEndpointConfigs,
			&adminv3.EndpointsConfigDump_DynamicEndpointConfig{VersionInfo: version, EndpointConfig: body})
	})
	eachResource(c, resource.Listener, func(name, version string, body *anypb.Any) {
		listeners.DynamicListeners = append(listeners.DynamicListeners, &adminv3.ListenersConfigDump_DynamicListener{
			Name:        name,
			ActiveState: &adminv3.ListenersConfigDump_DynamicListenerState{VersionInfo: version, Listener: body},
		})
	})
	routes.DynamicRouteConfigs = tables
	secrets := &adminv3.SecretsConfigDump{}
	set := c.State.Set(resource.Secret)
	for _, name := range set.Names() { // what is in them nobody is shown
		secrets.DynamicActiveSecrets = append(secrets.DynamicActiveSecrets,
			&adminv3.SecretsConfigDump_DynamicSecret{Name: name, VersionInfo: set.Get(name).Version().String()})
	}
	dump := &adminv3.ConfigDump{}
	for _, part := range []proto.Message{clusters, endpoints, listeners, routes, secrets} {
		a, err := anypb.New(part)
		if err != nil {
			return nil, fmt.Errorf("config of %s cannot be encoded: %w", c.Node.Name, err)
		}
		dump.Configs = append(dump.Configs, a)
	}
	return dump, nil
}

// eachResource calls f for the resources of a type in the order of names, as this proxy gets them.
func eachResource(c serve.Client, t resource.Type, f func(name, version string, body *anypb.Any)) {
	set := c.State.Set(t)
	for _, name := range set.Names() {
		r := set.Get(name)
		f(name, c.Overlay.Version(r).String(), &anypb.Any{TypeUrl: t.URL(), Value: c.Overlay.Body(t, r)})
	}
}
