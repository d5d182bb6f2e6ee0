package bench

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// attachEdits are changes of objects of the Gateway API. They need what meshgen.GatewayAPI has.
var attachEdits = []editOf{
	{"httproute", func(variant int) source.Change {
		return meshgen.Upsert(meshgen.HTTPRoute(subject, 1, fmt.Sprintf("/%06d", variant)))
	}, func() source.Change { return meshgen.Upsert(meshgen.HTTPRoute(subject, 1, "/")) }},
	{"grpcroute", func(variant int) source.Change {
		return meshgen.Upsert(meshgen.GRPCRoute(subject, fmt.Sprintf("method%06d", variant)))
	}, func() source.Change { return meshgen.Upsert(meshgen.GRPCRoute(subject, "method")) }},
	{"tlsroute", func(variant int) source.Change {
		return meshgen.Upsert(meshgen.TLSRoute(subject, weightOf(variant)))
	}, func() source.Change { return meshgen.Upsert(meshgen.TLSRoute(subject, 1)) }},
	{"tcproute", func(variant int) source.Change {
		return meshgen.Upsert(meshgen.TCPRoute(subject, weightOf(variant)))
	}, func() source.Change { return meshgen.Upsert(meshgen.TCPRoute(subject, 1)) }},
	{"listenerset", func(variant int) source.Change {
		return meshgen.Upsert(meshgen.ListenerSet(1, fmt.Sprintf("other-%06d.test", variant)))
	}, func() source.Change { return meshgen.Upsert(meshgen.ListenerSet(1, meshgen.SetHost(1))) }},
	{"gatewaylistener", func(variant int) source.Change {
		return meshgen.Upsert(meshgen.KubernetesGateway(fmt.Sprintf("other-%06d.test", variant)))
	}, func() source.Change { return meshgen.Upsert(meshgen.KubernetesGateway("spare.test")) }},
	{"referencegrant", func(variant int) source.Change {
		names := [2]string{"", "nothing"} // by turns, a route leads to the other namespace or does not
		return meshgen.Upsert(meshgen.ReferenceGrant(subject, names[variant%2]))
	}, func() source.Change { return meshgen.Upsert(meshgen.ReferenceGrant(subject, "")) }},
	{"backendtlspolicy", func(variant int) source.Change {
		return meshgen.Upsert(meshgen.BackendTLSPolicy(subject, fmt.Sprintf("backend-%06d.test", variant)))
	}, func() source.Change { return meshgen.Upsert(meshgen.BackendTLSPolicy(subject, "backend.test")) }},
}

// weightOf is a weight that no other variant of the same benchmark has.
func weightOf(variant int) int32 { return int32(2 + variant%1_000_000) }
