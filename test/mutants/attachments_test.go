package mutants

// attachmentFaults: what a change of an object of the Gateway API concerns is not looked at again.
func attachmentFaults() [][]fault {
	return [][]fault{
		in("state.attachments.concerned",
			without("ExprStmt c.gateway(p.Either())", "a changed Gateway"),
			without("ExprStmt c.routes.add(&p.Either().Meta)", "a changed route"),
			without("ExprStmt c.changedSet(p.Old)", "a ListenerSet as it was"),
			without("ExprStmt c.changedSet(p.New)", "a ListenerSet as it is"),
			without("ExprStmt c.gateway(g)", "Gateways of a changed class"),
			without("ExprStmt c.gatewaysWithRoutes(kubernetesGatewaysByForeign,…", "Gateways that a grant is for"),
			without("ExprStmt c.setsUnder(listenerSetsByForeign, at)", "ListenerSets that a grant is for"),
			without("ExprStmt c.routesUnder(attachedRoutesByForeign, at)", "routes that a grant is for"),
			without("ExprStmt c.namespace(p.Either().Name)", "what depends on the labels of a namespace"),
			without(
				"ExprStmt policyTargets(c, b.delta.AuthorizationPolicies,…",
				"Gateways that a changed AuthorizationPolicy is attached to",
			),
			without(
				"ExprStmt policyTargets(c, b.delta.RequestAuthentications,…",
				"Gateways that a changed RequestAuthentication is attached to",
			),
			without("ExprStmt c.gatewaysWithRoutes(kubernetesGatewaysByBundle,…", "Gateways that name a ConfigMap"),
			without("ExprStmt c.gatewaysUnder(kubernetesGatewaysBySecret, at)", "Gateways that name a Secret"),
			without("ExprStmt c.setsUnder(listenerSetsBySecret, at)", "ListenerSets that name a Secret"),
			without("ExprStmt c.service(p.Old)", "what names a Service as it was"),
			without("ExprStmt c.service(p.New)", "what names a Service as it is"),
		),
		in("state.concern.gateway",
			without("ExprStmt c.gateways.add(&g.Meta)", "a Gateway is resolved"),
			without(
				"ExprStmt c.routesUnder(attachedRoutesByParent,…",
				"the routes of a Gateway are resolved with it",
			),
			without("ExprStmt c.sets.add(&set.Meta)", "the ListenerSets of a Gateway are resolved with it"),
			without(
				"ExprStmt c.routesUnder(attachedRoutesByListenerSet,…",
				"the routes of its ListenerSets are resolved with a Gateway",
			),
		),
		in("state.concern.changedSet",
			without("ExprStmt c.sets.add(&set.Meta)", "a ListenerSet is resolved"),
			without("ExprStmt c.routesUnder(…", "the routes of a ListenerSet are resolved with it"),
			without("ExprStmt c.gateway(g)", "the Gateway of a ListenerSet is resolved with it"),
		),
		in("state.concern.namespace",
			without("ExprStmt c.gatewaysUnder(…", "Gateways that the revision of their namespace deploys"),
			without(
				"ExprStmt c.routesUnder(attachedRoutesByName, join(name))",
				"routes of a namespace whose labels changed",
			),
			without(
				"ExprStmt c.gateway(g)",
				"Gateways that let ListenerSets attach by the labels of their namespace",
			),
		),
		in("state.attachments.resolveBackends",
			without("ExprStmt policies.add(&p.Either().Meta)", "a BackendTLSPolicy has its status"),
			without("ExprStmt hosts.addTargets(changed)", "a BackendTLSPolicy changes its Services"),
			without("ExprStmt hosts.addTargets(policy)", "a ConfigMap changes the Services of policies that name it"),
			without("ExprStmt policies.add(&p.Meta)", "other policies of a Service are looked at again"),
			without("AssignStmt hosts[p.Either().Host] = true", "a changed Service changes the policy for it"),
		),
	}
}
