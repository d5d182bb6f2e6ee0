package debug

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/lateen-mesh/lateen/internal/xds/resource"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// configDump writes what a proxy should have, in the form in which Envoy's own /config_dump says
// what it has. The two can be compared.
func (h handler) configDump(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("proxyID")
	if id == "" {
		http.Error(w, "the proxy is missing: want ?proxyID=pod.namespace\n"+h.connected(), http.StatusBadRequest)
		return
	}
	c, ok := h.find(id)
	if !ok {
		http.Error(w, fmt.Sprintf("Proxy not connected to this Pilot instance. "+
			"It may be connected to another instance.\n%q is not connected; %s", id, h.connected()),
			http.StatusNotFound)
		return
	}
	dump, err := dumpOf(c)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	body, err := render(dump)
	if err != nil {
		http.Error(w, fmt.Sprintf("config of %s cannot be shown: %v", id, err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
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
// it takes the latest.
func (h handler) find(id string) (found serve.Client, ok bool) {
	for _, c := range h.Fleet.Clients() {
		if (c.Node.Name == id || c.Node.ID == id) && (!ok || c.ConnectedAt.After(found.ConnectedAt)) {
			found, ok = c, true
		}
	}
	return found, ok
}

// connected lists the connected proxies, 50 at most, for an error message.
func (h handler) connected() string {
	const limit = 50
	var names []string
	for _, c := range h.Fleet.Clients() {
		names = append(names, c.Node.Name)
	}
	switch {
	case len(names) == 0:
		return "no proxy is connected"
	case len(names) > limit:
		return fmt.Sprintf("connected are %s and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
	}
	return "connected are " + strings.Join(names, ", ")
}

func dumpOf(c serve.Client) (*adminv3.ConfigDump, error) {
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
	tables := c.State.Tables() // whole, as Envoy's dump has them, whatever form they went in
	for _, name := range tables.Names() {
		r := tables.Get(name)
		routes.DynamicRouteConfigs = append(routes.DynamicRouteConfigs, &adminv3.RoutesConfigDump_DynamicRouteConfig{
			VersionInfo: r.Version().String(), RouteConfig: &anypb.Any{TypeUrl: resource.Route.URL(), Value: r.Body()},
		})
	}
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
