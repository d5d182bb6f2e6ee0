package mutants

import "fmt"

// indexed are the tables of model objects, with their indexes.
var indexed = []struct {
	object  string
	indexes []string
	selects bool // workloads
}{
	{"Service", []string{
		"servicesByHost", "servicesByNamespace", "servicesByPort", "servicesByVIP", "servicesByPortMatch",
		"servicesBySelector", "servicesByAlias", "servicesByEndpoint", "servicesByDifference",
	}, false},
	{"VirtualService", []string{
		"virtualServicesByName", "virtualServicesByHost", "virtualServicesByGateway",
		"virtualServicesByDestination", "virtualServicesByDifference",
	}, true},
	{
		"DestinationRule",
		[]string{"destinationRulesByHost", "destinationRulesByCredential", "destinationRulesByDifference"},
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
	{"WorkloadEntry", []string{"workloadEntriesByName", "workloadEntriesByAddress"}, false},
	{"Workload", nil, false},
}

// tableFaults: an index, a selector or the delta is not kept up for one type of objects.
func tableFaults() [][]fault {
	var all [][]fault
	for _, t := range indexed {
		is := fmt.Sprintf("mutantIs[T, model.%s]()", t.object)
		for _, index := range t.indexes {
			column := fmt.Sprintf("%s && c == int(%s)", is, index)
			all = append(all, in("state.table.swap", "ExprStmt 2",
				when(column, without("ExprStmt 1", index+": one comes")),
				when(column, without("ExprStmt 2", index+": one goes")),
			))
		}
		if t.selects {
			all = append(all, in("state.declared.swapSelectors", "ExprStmt 2",
				when(is, without("ExprStmt 1", "selectors: that of a "+t.object+" goes")),
				when(is, without("ExprStmt 2", "selectors: that of a "+t.object+" comes")),
			), in("state.declared.changedSelectors", "AssignStmt 3",
				when(is, without("AssignStmt 3", "changed selectors: those of a "+t.object)),
			))
		}
		if t.object == "EndpointSlice" {
			continue // it is in no delta: its endpoints are
		}
		all = append(all, in("state.declared.swap", "AssignStmt 6",
			when(is, without("AssignStmt 6", "the delta has a "+t.object)),
		), in("state.declared.isEmpty", "BinaryExpr 3",
			when(is, instead("BinaryExpr 1", "a "+t.object+" is a change", "true")),
		), in("state.declared.compose", "AssignStmt 1",
			when(is, without("AssignStmt 1", "objects of both deltas: "+t.object)),
		))
	}
	return all
}
