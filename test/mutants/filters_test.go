package mutants

// filterFaults: a filter (ECDS) does not reach a client, or a client that refused one stays with
// what Envoy makes of that.
var filterFaults = [][]fault{
	in("session.Session.advance", "ExprStmt 13", without("ExprStmt 5", "filters are sent")),
	in("session.typeState.quarantine", "BinaryExpr 18",
		instead("BinaryExpr 11", "the last good filter is sent again", "false")),
	in("scope.Scope.hasPolicy", "BinaryExpr 3",
		instead("BinaryExpr 3", "a policy of the root namespace touches all", "false")),
	in("model.Selection.IsFor", "BinaryExpr 2",
		instead("BinaryExpr 2", "a policy of a Gateway touches its workloads", "false")),
}
