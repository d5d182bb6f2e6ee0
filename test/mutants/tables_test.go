package mutants

import (
	"fmt"
	"slices"
)

// indexed are the tables of model objects, with their indexes.
var indexed = []struct {
	object  string
	indexes []string
	selects bool // workloads
}{
	{"Service", []string{
		"servicesByHost", "servicesByNamespace", "servicesByPort", "servicesByVIP", "servicesByPortMatch",
		"servicesBySelector", "servicesByAlias", "servicesByEndpoint", "servicesCalledByPod", "servicesByDifference",
	}, false},
	{"VirtualService", []string{
		"virtualServicesByName", "virtualServicesByHost", "virtualServicesByGateway",
		"virtualServicesByDestination", "virtualServicesByDifference",
	}, true},
	{
		"DestinationRule",
		[]string{
			"destinationRulesByHost", "destinationRulesByCredential", "destinationRulesPassingThrough",
			"destinationRulesByDifference",
		},
		true,
	},
	{"Gateway", []string{
		"gatewaysInOrder", "gatewaysByName", "gatewaysByCredential", "gatewaysForwarding", "gatewaysPresenting",
	}, true},
	{"Sidecar", []string{"sidecarsByNamespace"}, true},
	{"AuthorizationPolicy", []string{"authorizationPoliciesByNamespace", "authorizationPoliciesBySelector"}, true},
	{"PeerAuthentication", []string{
		"peerAuthenticationsByNamespace", "peerAuthenticationsDisabling", "peerAuthenticationsBySelector",
	}, true},
	{"RequestAuthentication", []string{
		"requestAuthenticationsByNamespace", "requestAuthenticationsByKeySet", "requestAuthenticationsBySelector",
	}, true},
	{"Telemetry", []string{"telemetriesByNamespace", "telemetriesBySelector"}, true},
	{"ProxyConfig", []string{"proxyConfigsByNamespace"}, false},
	{"KeySet", []string{"keySetsByURI"}, false},
	{"Credential", []string{"credentialsByName"}, false},
	{"Node", []string{"nodesByName"}, false},
	{"EndpointSlice", []string{"slicesByPod", "slicesByNode"}, false},
	{"WorkloadEntry", []string{
		"workloadEntriesByName", "workloadEntriesByAddress", "workloadEntriesNamed",
	}, false},
	{"Workload", nil, false},
	{"RootRoutes", []string{"rootRoutesByName", "rootRoutesByDelegate"}, false},
	{"DelegateRoutes", []string{"delegateRoutesByName"}, false},
	{"DelegationStatus", []string{"delegationStatusesByName"}, false},
}

// inNoDelta are the objects of which a delta has only what they come to.
var inNoDelta = []string{"EndpointSlice", "RootRoutes", "DelegateRoutes"}

// tableFaults: an index, a selector or the delta is not kept up for one type of objects.
func tableFaults() [][]fault {
	var all [][]fault
	for _, t := range indexed {
		is := fmt.Sprintf("mutantIs[T, model.%s]()", t.object)
		for _, index := range t.indexes {
			column := fmt.Sprintf("%s && c == int(%s)", is, index)
			all = append(all, in("state.table.swap",
				when(column, without("ExprStmt ix.put(b.tx, k, p.New)", index+": one comes")),
				when(column, without("ExprStmt ix.drop(b.tx, k)", index+": one goes")),
			))
		}
		if t.selects {
			all = append(all, in("state.declared.swapSelectors",
				when(is, without("ExprStmt b.next.selectors.drop(…", "selectors: that of a "+t.object+" goes")),
				when(is, without("ExprStmt b.next.selectors.put(…", "selectors: that of a "+t.object+" comes")),
			), in("state.declared.changedSelectors",
				when(is, without("AssignStmt found…", "changed selectors: those of a "+t.object)),
			))
		}
		if slices.Contains(inNoDelta, t.object) {
			continue
		}
		all = append(all, in("state.declared.swap",
			when(is, without("AssignStmt *list = append(*list, Pair[T]{Old: o, New: n})", "the delta has a "+t.object)),
		), in("state.declared.isEmpty",
			when(is, instead("BinaryExpr t.changes == nil ||…", "a "+t.object+" is a change", "true")),
		), in("state.declared.compose",
			when(is, without("AssignStmt *t.changes(…", "objects of both deltas: "+t.object)),
		))
	}
	return all
}
