package compile

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// named is a proxy that looks names up.
func named(intercepted bool) scope.Proxy {
	return scope.Proxy{Namespace: "default", Name: "p", Settings: scope.Settings{
		HTTPProxyPort: 15080, Intercepted: intercepted, DynamicDNS: true,
	}}
}

// wildcardEntry is a host with a port, resolved in one way.
func wildcardEntry(resolution model.Resolution, port model.ServicePort) []model.Object {
	return []model.Object{&model.Service{
		Meta:       aloneMeta(kinds.ServiceEntry, "e"),
		Host:       "*.partner.test",
		Resolution: resolution,
		Ports:      []model.ServicePort{port},
		ExportTo:   everywhere,
	}}
}

// The names below a wildcard begin and cease to be looked up: the proxy has what compiling from
// nothing gives it.
func TestNamesBeginAndCeaseToBeLookedUp(t *testing.T) {
	http := model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP, Target: 80}
	tls := model.ServicePort{Name: "tls", Port: 443, Protocol: model.TLS, Target: 443}
	for name, c := range map[string]struct {
		proxy  scope.Proxy
		port   model.ServicePort
		before model.Resolution
	}{
		"of requests":                            {named(false), http, model.EDS},
		"of requests that were looked up before": {named(false), http, model.Passthrough},
		"of intercepted requests":                {named(true), http, model.EDS},
		"of connections":                         {named(false), tls, model.EDS},
		"of connections that were looked up":     {named(false), tls, model.Passthrough},
		"of intercepted connections":             {named(true), tls, model.EDS},
	} {
		t.Run(name, func(t *testing.T) {
			before := wildcardEntry(c.before, c.port)
			requireFollows(t, c.proxy, [][]model.Object{before, wildcardEntry(model.DynamicDNS, c.port), before})
		})
	}
}

// Unknown hosts begin and cease to be looked up.
func TestUnknownHostsBeginAndCeaseToBeLookedUp(t *testing.T) {
	life := func(dynamic bool) []state.Update {
		mesh := model.DefaultMesh()
		mesh.Outbound.DynamicDNS = dynamic
		service := aloneService("s", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP})
		return append(updatesOf([]model.Object{service}), state.Update{
			Key:     source.Key{Kind: kinds.ConfigMap, Namespace: "istio-system", Name: "istio"},
			Objects: []model.Object{&mesh},
		})
	}
	for _, intercepted := range []bool{false, true} {
		requireFollowsUpdates(t, named(intercepted), [][]state.Update{life(false), life(true), life(false)})
	}
}

// Proxies that look names up share nothing of that with others.
func TestProxiesThatLookNamesUpAreOtherClasses(t *testing.T) {
	objects := wildcardEntry(model.DynamicDNS, model.ServicePort{
		Name: "http", Port: 80, Protocol: model.HTTP, Target: 80,
	})
	for _, intercepted := range []bool{false, true} {
		looking, other := named(intercepted), named(intercepted)
		other.Settings.DynamicDNS = false
		requireClassesDiffer(t, objects, looking, other)
		requireClassesDiffer(t, objects, other, looking)
	}
}
