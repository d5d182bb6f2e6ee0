package mutants

// filterFaults: a filter (ECDS) does not reach a client, or a client that refused one stays with
// what Envoy makes of that.
var filterFaults = [][]fault{
	in("session.Session.advance", without("ExprStmt e.push(resource.Filter, nil)", "filters are sent")),
	in("session.typeState.quarantine",
		instead(
			"BinaryExpr ts.typ == resource.Filter && (h.resource != nil || h.version.IsZero())",
			"the last good filter is sent again, or a removal", "false"),
	),
	in("session.emission.split",
		instead(
			"BinaryExpr ts.typ == resource.Filter || …",
			"each filter goes alone", "limit > 0 && size+r.Size() > limit"),
	),
	in("session.Session.handleNack",
		instead("BinaryExpr ts.typ == resource.Filter", "listeners are doubted once a filter is refused", "false")),
	in("session.Session.retryListeners",
		instead("BinaryExpr due || …", "listeners wait until filters are mended", "false")),
	in("scope.Scope.hasPolicy",
		instead(
			"BinaryExpr namespace == s.snapshot.Mesh.RootNamespace",
			"a policy of the root namespace touches all", "false"),
	),
	in("model.Selection.IsFor",
		instead("BinaryExpr ofNamespace…", "a policy of a Gateway touches its workloads", "false")),
}
