package bench

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/kinds"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
	"github.com/lateen-mesh/lateen/internal/translate/cluster"
	"github.com/lateen-mesh/lateen/internal/translate/endpoint"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/translate/route"
)

// BenchmarkTranslate translates and encodes one resource of each kind, of a service as a class sees
// it: what a miss of the memo costs.
func BenchmarkTranslate(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		u, _ := newUpstream(b, services)
		class := scope.NewClassifier().Classify(u.writer.Snapshot(), factsOf(meshgen.Proxies()[openProxy]).Proxy)
		s := scope.New(u.writer.Snapshot(), &class)
		in := inputsOf(b, s, model.Host(meshgen.Host(subject)))
		one := func(name string, translate func() proto.Message) {
			change(b, name, func(b *testing.B) {
				size := 0
				for b.Loop() {
					body, err := pb.Marshal(translate())
					if err != nil {
						b.Fatal(err)
					}
					size = len(body)
				}
				b.ReportMetric(float64(size), "body-B/op")
			})
		}
		one("cluster", func() proto.Message { return cluster.Outbound(in.cluster) })
		one("endpoint", func() proto.Message {
			e, err := endpoint.Endpoint(in.endpoint)
			require.NoError(b, err)
			return e
		})
		one("listener", func() proto.Message { return listener.HTTP(in.listener) })
		one("virtualhost", func() proto.Message { return route.VirtualHost(in.vhost) })
		one("routetable", func() proto.Message { return route.Table(route.TableInput{Name: in.listener.RouteTable}) })
	})
}

type inputs struct {
	cluster  cluster.OutboundInput
	endpoint endpoint.Input
	listener listener.HTTPInput
	vhost    route.VirtualHostInput
}

// inputsOf are the inputs of translations for a service of one HTTP port, with routes and subsets,
// as compile makes them.
func inputsOf(tb testing.TB, s *scope.Scope, host model.Host) inputs {
	svc := s.Service(host)
	require.NotNil(tb, svc)
	mesh := s.Mesh()
	port := svc.Ports[0]
	vs, rule := s.VirtualService(host, port.Port, scope.HTTPRoutes), s.DestinationRule(svc)
	refs := []route.RouteRef{{
		Owner: source.Key{Kind: kinds.VirtualService, Namespace: vs.Namespace, Name: vs.Name},
		Route: vs.HTTP[0],
	}}
	var facts []route.DestinationFact
	for _, d := range vs.HTTP[0].Destinations {
		facts = append(facts, route.DestinationFact{Host: d.Host, Port: d.Port, Subset: d.Subset, Resolved: port.Port})
	}
	return inputs{
		cluster: cluster.OutboundInput{
			Host: host, Port: port.Port, Protocol: port.Protocol, Resolution: svc.Resolution, Subset: "v1",
			Service:        svc.Namespace + "/" + svc.Name,
			Rule:           rule.Namespace + "/" + rule.Name,
			Policy:         rule.Policy,
			ConnectTimeout: mesh.ConnectTimeout,
		},
		endpoint: endpoint.Input{Address: "127.0.1.0", Port: 20080, Workload: svc.Namespace + "/" + svc.Name + "-0"},
		listener: listener.HTTPInput{
			Name:         "127.0.0.1_15080",
			Bind:         model.OwnOutbound,
			Port:         15080,
			BindToPort:   true,
			RouteTable:   "http_proxy",
			ProxyUnknown: true,
		},
		vhost: route.VirtualHostInput{
			Domains: model.NewInterner[string]().List([]string{string(host), svc.Name, svc.Name + "." + svc.Namespace}),
			Routes:  model.NewInterner[route.RouteRef]().List(refs),
			Facts:   model.NewInterner[route.DestinationFact]().List(facts),
			Retries: mesh.Retries, Port: port.Port,
		},
	}
}
