package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// securedGateway is a Gateway whose one server has TLS and these hosts.
func securedGateway(name string, hosts ...model.Host) *model.Gateway {
	g := &model.Gateway{Meta: aloneMeta(kinds.Gateway, name), Selector: gatewayLabels}
	sv := model.GatewayServer{
		Port: 443, PortName: "https", Protocol: model.HTTP, TLS: &model.ServerTLS{
			Mode: model.ServerSimple, Files: []model.CertificateFiles{{Chain: "/chain.pem", Key: "/key.pem"}},
		},
	}
	for _, h := range hosts {
		sv.Hosts = append(sv.Hosts, model.ScopedHost{Namespace: "*", Host: h})
	}
	g.Servers = []model.GatewayServer{sv}
	return g
}

// Hosts of one Gateway come and go, and the tables of the others follow: with routes below a
// wildcard that another Gateway takes, too.
func TestHostsOfAServerShowAtTheOthersOfItsPort(t *testing.T) {
	_, routes := aloneGateway(443, model.HTTP)
	routes.Hosts, routes.Gateways = []model.Host{"a.b.com", "c.com"}, []string{"default/wide"}
	routes.HTTP = []*model.HTTPRoute{{Direct: &model.DirectResponse{Status: 200}}}
	with := func(others ...*model.Gateway) []model.Object {
		life := []model.Object{routes, securedGateway("wide", "*.com"), securedGateway("lone", "lone.org")}
		for _, g := range others {
			life = append(life, g)
		}
		return life
	}
	requireFollows(t, gatewayProxy(), [][]model.Object{
		with(securedGateway("other", "x.org")),
		with(securedGateway("other", "c.com")),
		with(securedGateway("other", "*.b.com")),
		with(securedGateway("other", "a.b.com", "*.b.com")),
		with(securedGateway("other", "*")),
		with(securedGateway("other", "x.org")),
	})
}

// Beyond 64 hosts of a port, the tables list "*" in the place of all others, and back.
func TestManyHostsOfAPortAreNotListedAtEach(t *testing.T) {
	with := func(n int) []model.Object {
		life := []model.Object{securedGateway("wide", "*.h1.com")}
		for i := range n {
			life = append(life, securedGateway(fmt.Sprintf("g%d", i), model.Host(fmt.Sprintf("x.h%d.com", i))))
		}
		return life
	}
	requireFollowsUpdates(t, gatewayProxy(), [][]state.Update{
		updatesOf(with(62)), updatesOf(with(63)), updatesOf(with(64)), updatesOf(with(80)),
		removalsOf(with(80)[64:]), removalsOf(with(80)[3:64]),
	})

	hosts := func(n int) int {
		w := state.NewWriter()
		w.Apply(updatesOf(with(n)))
		return placeIn(t, w.Snapshot(), gatewayProxy()).state.Set(resource.VirtualHost).Len()
	}
	require.Equal(t, 64*63+1, hosts(63), "each lists the others; x.h1.com is kept, below *.h1.com")
	require.Equal(t, 201*2+1, hosts(200), "each has its own and *, and *.h1.com the one below it")
}

func removalsOf(objects []model.Object) []state.Update {
	updates := updatesOf(objects)
	for i := range updates {
		updates[i].Objects = nil
	}
	return updates
}

// A Gateway that changes something else leaves the virtual hosts of others alone.
func TestAChangedServerWithTheSameHostsTouchesNoOther(t *testing.T) {
	before, after := securedGateway("a", "a.com"), securedGateway("a", "a.com")
	after.Servers[0].TLS = &model.ServerTLS{Mode: model.ServerSimple, Credentials: []string{"other"}}
	w := state.NewWriter()
	w.Apply(updatesOf([]model.Object{before, securedGateway("b", "b.com")}))
	c := placeIn(t, w.Snapshot(), gatewayProxy())
	_, d := w.Apply(updatesOf([]model.Object{after, securedGateway("b", "b.com")}))
	var from, to scope.Scope
	for _, known := range c.comp.classes {
		from, to = known.scope, known.scope
	}
	to.MoveTo(d.To)
	units, _ := c.comp.builder.impactOf(d, nil, false).units(&from, &to)
	for _, u := range units {
		require.NotContains(t, u.table, ".b.", "%+v", u)
	}
}
