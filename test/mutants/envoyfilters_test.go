package mutants

// patchFaults: what EnvoyFilters change is not compiled, or a proxy is not asked for anew.
var patchFaults = [][]fault{
	in("compile.impact.patching", instead("BinaryExpr was == is", "other patches touch a class", "true")),
	in("compile.impact.addPatch",
		without("ExprStmt m.addPatchedHost(hostOfCluster(p.Cluster))", "clusters that a patch matches"),
		without("ExprStmt m.patches.touch(ownKind{}, gatewayKind{}, hostKind{})", "units with tables"),
		without("ExprStmt m.addPatchedHost(hostOfVirtualHost(p.Route))", "virtual hosts that a patch matches"),
		without("ExprStmt m.patches.touch(gatewayHostKind{})", "virtual hosts of gateways"),
		without("AssignStmt m.patches.ofListeners = true", "listeners of ports"),
		without("ExprStmt m.patches.touch(ownKind{}, vipKind{}, gatewayKind{})", "units with listeners"),
	),
	in("compile.impact.addPatchedHost",
		without("ExprStmt m.patches.touch(hostKind{})", "a patch that is for all hosts"),
		without("ExprStmt m.hosts.add(host, m.patches.by)", "a patch that is for one host"),
	),
	in("compile.addedKind.touched",
		without("ExprStmt found.add(unit{kind: addedKind{}}, m.patches.by)", "what patches add")),
	in("compile.class.editTables",
		without("ExprStmt c.editAddedHosts(builder, s, name, e)", "virtual hosts that patches add")),
	in("compile.gatewayHostKind.touched",
		without("ExprStmt m.addRenumbered(from, to, found)", "a table whose servers have other ports")),
	in("scope.Moves.addProxyMatches",
		without("AssignStmt m.matches = append(m.matches, movingMatch{…", "what patches match of proxies moves them")),
}
