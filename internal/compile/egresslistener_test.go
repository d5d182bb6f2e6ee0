package compile

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// listening is a Sidecar with these listeners.
func listening(listeners ...model.EgressListener) []state.Update {
	return updatesOf([]model.Object{&model.Sidecar{Meta: aloneMeta(kinds.Sidecar, "s"), Egress: listeners}})
}

// shownIn is a listener that shows a namespace at a port.
func shownIn(namespace string, port uint16) model.EgressListener {
	return model.EgressListener{
		Hosts: []model.ScopedHost{{Namespace: namespace, Host: "*"}}, Port: port, Requests: true,
	}
}

func changed(l model.EgressListener, change func(*model.EgressListener)) model.EgressListener {
	change(&l)
	return l
}

// One part changes alone of a listener that a Sidecar has for calls, without and with interception.
// Random lives hardly ever bring these.
func TestOnePartOfAListenerForCallsChanges(t *testing.T) {
	bytesAt := func(l *model.EgressListener) { l.Requests, l.Bind = false, "127.0.0.9" }
	requests, rest := shownIn("default", 80), shownIn("default", 0)
	requests.Bind = "127.0.0.9"
	byBytes := changed(requests, bytesAt)
	services := updatesOf([]model.Object{
		aloneService("a", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP}),
		aloneService("b", model.ServicePort{Name: "tcp", Port: 80, Protocol: model.TCP}),
	})
	intercepted := scope.Settings{Intercepted: true, HTTPProxyPort: 15080}
	for name, lives := range map[string][][]state.Update{
		"that it has a port": {
			append(services, listening(requests)...), listening(rest), listening(requests),
		},
		"whether it is for all ports": {
			append(services, listening(requests)...),
			listening(changed(requests, func(l *model.EgressListener) { l.AllPorts = true })), listening(requests),
		},
		"its address": {
			append(services, listening(byBytes)...),
			listening(changed(byBytes, func(l *model.EgressListener) { l.Bind = "127.0.0.8" })), listening(byBytes),
		},
		"what it shows": {
			append(services, listening(requests)...), listening(shownIn("shop", 80)), listening(requests),
		},
	} {
		t.Run(name, func(t *testing.T) {
			plain := scope.Proxy{Namespace: "default", Name: "p", Settings: scope.Settings{HTTPProxyPort: 15080}}
			requireFollowsUpdates(t, plain, lives)
			requireFollowsUpdates(t, scope.Proxy{Namespace: "default", Name: "p", Settings: intercepted}, lives)
		})
	}
	for name, l := range map[string]model.EgressListener{"of requests": requests, "of bytes": byBytes} {
		t.Run("whether one "+name+" has its port where connections are redirected", func(t *testing.T) {
			own := changed(l, func(l *model.EgressListener) { l.OwnPort = true })
			requireFollowsUpdates(t, scope.Proxy{Namespace: "default", Name: "p", Settings: intercepted},
				[][]state.Update{append(services, listening(l)...), listening(own), listening(l)})
		})
	}
}

// A listener of bytes beside those of redirected connections leads to a service that comes.
func TestAListenerForCallsFollowsItsServices(t *testing.T) {
	l := shownIn("default", 80)
	l.Requests, l.OwnPort = false, true
	service := aloneService("b", model.ServicePort{Name: "tcp", Port: 80, Protocol: model.TCP})
	gone := []state.Update{{Key: service.Key()}}
	intercepted := scope.Proxy{Namespace: "default", Name: "p", Settings: scope.Settings{Intercepted: true}}
	requireFollowsUpdates(t, intercepted, [][]state.Update{
		listening(l), updatesOf([]model.Object{service}), gone, updatesOf([]model.Object{service}),
	})
}

// Two workloads of a namespace whose Sidecars show hosts at a port differently share nothing that
// depends on it.
func TestWorkloadsWithOtherListenersForCallsShareNothing(t *testing.T) {
	all := model.ScopedHost{Namespace: "*", Host: "*"}
	var objects []model.Object
	for name, port := range map[string]uint16{"a": 80, "b": 9080} {
		objects = append(objects, &model.Sidecar{
			Meta: aloneMeta(kinds.Sidecar, name), Selector: model.LabelsOf(map[string]string{"app": name}),
			Egress: []model.EgressListener{{Hosts: []model.ScopedHost{all}, Port: port, Requests: true}},
		})
	}
	w := state.NewWriter()
	w.Apply(updatesOf(objects))
	comp := NewCompiler(refuseNothing(t))
	comp.snapshot = w.Snapshot()
	proxy := func(app string) scope.Proxy {
		return scope.Proxy{
			Namespace: "default", Name: app, Labels: model.LabelsOf(map[string]string{"app": app}),
			Settings: scope.Settings{HTTPProxyPort: 15080},
		}
	}
	states := map[resource.ClassID]resource.State{}
	ids := map[string]resource.ClassID{}
	for _, app := range []string{"a", "b"} {
		comp.Join(Facts{Proxy: proxy(app)}, func(_ *Member, at Placement) {
			ids[app], states[at.Class] = at.Class, at.State
		})
	}
	_, d := w.Apply(updatesOf([]model.Object{
		aloneService("x", model.ServicePort{Name: "http", Port: 80, Protocol: model.HTTP}),
	}))
	comp.Advance(d, func(s Step) {
		for _, c := range s.Changed {
			states[c.Class] = c.State
		}
	})
	for app, id := range ids {
		require.Equal(t, dump(placeIn(t, w.Snapshot(), proxy(app)).state), dump(states[id]), app)
	}
}
