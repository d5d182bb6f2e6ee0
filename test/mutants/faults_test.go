package mutants

import "slices"

// fault is an edge that is cut: a node of a function is left out or replaced.
type fault struct {
	place
	what string
	// instead is the expression in place of the node; with none, the node is a statement that is
	// left out.
	instead string
	// when is the condition of the fault, an expression where the node is; empty for always.
	when string
}

// in are faults in a function, which has so many nodes of each kind that they name: "ExprStmt 9,
// BinaryExpr 3".
func in(function, counts string, faults ...fault) []fault {
	for i := range faults {
		faults[i].function, faults[i].counts = function, counts
	}
	return faults
}

// without leaves a statement out.
func without(node, what string) fault { return fault{place: place{node: node}, what: what} }

// instead replaces an expression. Both are evaluated: neither may have an effect. $0, $1 and so on
// stand for parts of the node.
func instead(node, what, by string) fault {
	return fault{place: place{node: node}, what: what, instead: by}
}

// when has a fault happen only under a condition.
func when(condition string, f fault) fault {
	f.when = condition
	return f
}

func faults() []fault {
	var all []fault
	for _, list := range [][][]fault{
		impactFaults, classFaults, portFaults, scopeFaults, readFaults, secretFaults, tableFaults(),
		indexFaults, joinFaults, accountFaults, thenFaults,
		checkFaults, memberFaults, loopFaults, aheadFaults,
	} {
		all = append(all, slices.Concat(list...)...)
	}
	return all
}

// classFaults: a class or a proxy does not take over what was found.
var classFaults = [][]fault{
	in("compile.class.stepTo", "ExprStmt 6",
		without("ExprStmt 3", "TCP listeners"),
		without("ExprStmt 4", "the next step starts from this one"),
	),
	in("compile.class.compile", "ExprStmt 4", without("ExprStmt 2", "conflicts of before are forgotten")),
	in("compile.unitBuilder.compileUnits", "ExprStmt 4",
		without("ExprStmt 3", "what a unit no longer has is removed"),
		without("ExprStmt 4", "what a unit has is put"),
	),
	in("compile.stepCache.editLike", "AssignStmt 11, CallExpr 15",
		instead("CallExpr 1", "classes that saw otherwise come to something else", "true"),
		instead("CallExpr 2", "classes that see otherwise come to something else", "true"),
		without("AssignStmt 2", "what is read is recorded"),
	),
	in("compile.class.replace", "BinaryExpr 5",
		instead("BinaryExpr 5", "virtual hosts that are new make a table larger", "false"),
	),
	in("compile.class.takeProblems", "ExprStmt 2",
		without("ExprStmt 1", "conflicts of before are forgotten"),
		without("ExprStmt 2", "conflicts are told"),
	),
	in("compile.class.takeEdits", "ExprStmt 3", without("ExprStmt 3", "varied assignments")),
	in("compile.class.startBuild", "AssignStmt 5, ExprStmt 1",
		without("ExprStmt 1", "conflicts of before are forgotten"),
		without("AssignStmt 5", "all units are compiled"),
	),
	in("compile.class.compileChunk", "AssignStmt 7, ExprStmt 7",
		without("ExprStmt 2", "what units have is put"),
		without("AssignStmt 3", "ports that turned are compiled"),
		without("ExprStmt 5", "all ports are compiled"),
		without("ExprStmt 7", "what differs by place is noted"),
	),
	in("compile.variant.setState", "AssignStmt 1, CallExpr 2",
		instead("CallExpr 1", "equal sets are no change", "false"),
		without("AssignStmt 1", "a variant has its new state"),
		instead("CallExpr 2", "changed variants are told", "$1"),
	),
	in("compile.class.editTables", "ExprStmt 2, RangeStmt 3",
		without("RangeStmt 1", "a head touches its table"),
		without("RangeStmt 2", "a virtual host touches its table"),
		without("ExprStmt 1", "the table of a port is opened and closed"),
	),
	in("compile.class.toggleRequests", "AssignStmt 7",
		without("AssignStmt 5", "a port that has requests, or has none any more, is compiled"),
		without("AssignStmt 6", "a table without virtual hosts goes"),
	),
	in("compile.class.editTable", "AssignStmt 9",
		without("AssignStmt 2", "virtual hosts are counted"),
		without("AssignStmt 5", "a class knows a table's head"),
		without("AssignStmt 8", "a head comes and goes"),
	),
	in("compile.class.addedVhosts", "IncDecStmt 2",
		without("IncDecStmt 1", "a virtual host that comes"),
		without("IncDecStmt 2", "a virtual host that goes, or was there"),
	),
	in("compile.class.willHave", "BinaryExpr 2", instead("BinaryExpr 1", "an edited virtual host", "false")),
	in("compile.tables.of", "CallExpr 16, ExprStmt 5",
		instead("CallExpr 3", "heads that changed", "true"),
		instead("CallExpr 4", "virtual hosts that changed", "true"),
		without("ExprStmt 3", "a table whose virtual hosts changed"),
		without("ExprStmt 5", "a table whose head changed"),
	),
	in("compile.tables.assemble", "AssignStmt 4, ExprStmt 1",
		without("AssignStmt 4", "a table's virtual hosts are remembered"),
		without("ExprStmt 1", "a table without virtual hosts has none"),
	),
	in("compile.tables.clone", "CallExpr 3", instead("CallExpr 3", "a class has tables of its own", "$1")),
	in("compile.edits.remove", "AssignStmt 2", without("AssignStmt 1", "a head goes")),
	in("compile.containsSlot", "BinaryExpr 5",
		instead("BinaryExpr 3", "slots are told apart by type", "true"),
		instead("BinaryExpr 5", "slots are told apart by name", "true"),
	),
	in("compile.Compiler.Advance", "AssignStmt 11",
		without("AssignStmt 1", "proxies join the present world"),
		without("AssignStmt 9", "proxies move"),
		without("AssignStmt 8", "places that count otherwise"),
	),
	in("compile.Compiler.release", "ExprStmt 3", without("ExprStmt 3", "a class without proxies goes")),
	in("compile.Compiler.addClass", "AssignStmt 4", without("AssignStmt 2", "a class is found again")),
	in("compile.Compiler.place", "ExprStmt 3",
		without("ExprStmt 3", "a proxy leaves its class for another"),
	),
	in("compile.Compiler.move", "AssignStmt 7, BinaryExpr 5, UnaryExpr 2",
		instead("UnaryExpr 2", "what moves a proxy", "true"),
		instead("BinaryExpr 4", "another class is a move", "false"),
		without("AssignStmt 3", "proxies of a class in which places count otherwise"),
		instead("BinaryExpr 5", "other addresses are a move", "false"),
	),
	in("compile.members.touched", "ExprStmt 5",
		without("ExprStmt 5", "a changed WorkloadEntry may move proxies of its namespace"),
		without("ExprStmt 1", "selectors may move all"),
		without("ExprStmt 2", "a changed Pod may move its proxy"),
		without("ExprStmt 4", "a changed Service may move proxies of its namespace"),
	),
	in("compile.difference", "AssignStmt 3, ExprStmt 6",
		without("AssignStmt 2", "a class has an own"),
		without("ExprStmt 1", "names in the namespaces"),
		without("ExprStmt 2", "hosts for which a namespace's own service comes first"),
		without("ExprStmt 3", "what one of the two sees"),
		without("ExprStmt 4", "rules of the two namespaces"),
		without("ExprStmt 5", "routes that ask who calls"),
		without("ExprStmt 6", "what depends on credentials"),
	),
	in("compile.impact.addShortNames", "AssignStmt 4",
		without("AssignStmt 3", "services with another short name"),
		without("AssignStmt 4", "routed hosts with another short name"),
	),
	in("compile.impact.addExported", "ExprStmt 3",
		without("ExprStmt 1", "services that one of the two sees"),
		without("ExprStmt 2", "routes that one of the two has"),
		without("ExprStmt 3", "rules that one of the two has"),
	),
	in("compile.impact.addRoutesAndDestinations", "ExprStmt 2",
		without("ExprStmt 1", "routes"),
	),
	in("compile.class.recompile", "ExprStmt 3", without("ExprStmt 1", "problems of before are not told any more")),
	in("compile.class.startFrom", "ExprStmt 2",
		without("ExprStmt 1", "problems of both are told of both"),
		without("ExprStmt 2", "a class takes a step to what it sees itself"),
	),
	in("compile.unitBuilder.newFastPath", "ExprStmt 1", without("ExprStmt 1", "what a group of endpoints is now")),
	in("compile.endpointFastPath.replaceList", "AssignStmt 8, IndexExpr 7",
		without("AssignStmt 4", "varied assignments"),
		instead("IndexExpr 4", "disputed assignments are left to the classes", "false"),
		without("AssignStmt 8", "what takes the place of an assignment"),
	),
	in("compile.endpointFastPath.apply", "AssignStmt 4", without("AssignStmt 2", "assignments are replaced")),
	in(
		"compile.endpointFastPath.editVaried",
		"CallExpr 4",
		instead("CallExpr 2", "a class that is being built is at no place", "false"),
	),
	in(
		"compile.endpointFastPath.editVariedOne",
		"AssignStmt 5",
		without("AssignStmt 5", "varied assignments are replaced"),
	),
	in(
		"compile.groups.sweep",
		"IndexExpr 4",
		instead("IndexExpr 2", "a class that is being built holds its groups", "false"),
	),
	in("compile.groups.recordAssignment", "AssignStmt 4", without("AssignStmt 3", "who else made an assignment")),
	in("compile.groups.get", "AssignStmt 8", without("AssignStmt 8", "sets of a service are known by it")),
	in("compile.groups.update", "AssignStmt 9",
		without("AssignStmt 2", "endpoints go"),
		without("AssignStmt 5", "endpoints come"),
		without("AssignStmt 8", "a set is replaced"),
	),
	in("compile.groups.apply", "AssignStmt 9, BinaryExpr 3, ExprStmt 1, IncDecStmt 1",
		without("AssignStmt 4", "sites before one that changed stay"),
		without("AssignStmt 9", "sites after those that changed stay"),
		without("AssignStmt 5", "a site begins with what it has"),
		without("IncDecStmt 1", "a site is there once"),
		without("ExprStmt 1", "edits are in the order of sites"),
		instead("BinaryExpr 3", "sites without endpoints go", "true"),
	),
	in("compile.groupKey.put", "CallExpr 3", instead("CallExpr 3", "weights of what comes", "0")),
	in("compile.groupKey.drop", "UnaryExpr 1", instead("UnaryExpr 1", "weights of what goes", "0")),
	in("compile.Compiler.variantOf", "ExprStmt 1", without("ExprStmt 1", "a variant is found again")),
	in("compile.class.noteVaried", "AssignStmt 3, ExprStmt 3",
		without("ExprStmt 1", "what decided before"),
		without("ExprStmt 2", "what decides now"),
		without("ExprStmt 3", "an assignment that goes"),
		without("AssignStmt 1", "an assignment that differs by place"),
		without("AssignStmt 3", "other labels decide"),
	),
	in("compile.class.stepVariants", "AssignStmt 5",
		without("AssignStmt 3", "what variants have for themselves"),
	),
}

// portFaults: who has a TCP port is not kept up.
var portFaults = [][]fault{
	in(
		"compile.class.owner",
		"BinaryExpr 1",
		instead("BinaryExpr 1", "an owner that is not the first is remembered", "false"),
	),
	in("compile.class.setOwner", "AssignStmt 1, ExprStmt 1",
		without("ExprStmt 1", "an owner that is the first again is forgotten"),
		without("AssignStmt 1", "an owner that is not the first is remembered"),
	),
	in("compile.class.compilePort", "ExprStmt 4",
		without("ExprStmt 2", "the owner is remembered"),
		without("ExprStmt 3", "who does not have a port is told"),
	),
	in("compile.class.stepPort", "BinaryExpr 12, CallExpr 19, ExprStmt 6, IndexExpr 1",
		without("ExprStmt 2", "the next owner is remembered"),
		instead("BinaryExpr 2", "another owner changes the listener", "false"),
		instead("BinaryExpr 8", "the owner changes the listener", "false"),
		instead("IndexExpr 1", "requests change the listener", "false"),
		instead("CallExpr 7", "a TLS service of before changes the listener", "false"),
		instead("CallExpr 8", "a TLS service changes the listener", "false"),
		without("ExprStmt 3", "who touches a port is told that it is not theirs"),
		without("ExprStmt 4", "all are told who has a port now"),
		without("ExprStmt 5", "a listener goes"),
		without("ExprStmt 6", "a listener comes"),
	),
	in("compile.class.reportLoser", "ExprStmt 3", without("ExprStmt 1", "what was told is forgotten")),
	in("compile.nextOwner", "AssignStmt 4, CallExpr 8, IndexExpr 1, UnaryExpr 3",
		instead("IndexExpr 1", "an owner that was touched may lose a port", "false"),
		without("AssignStmt 2", "an owner that was not touched keeps a port"),
		without("AssignStmt 4", "who touches a port may have it"),
		instead("CallExpr 4", "who comes first has a port", "false"),
		instead("UnaryExpr 2", "an owner that lost a port passes it on", "true"),
		instead("CallExpr 8", "the next in the total order", "false"),
	),
	in("compile.class.clearProblems", "ExprStmt 2",
		without("ExprStmt 1", "a conflict that is settled is told no more"),
		without("ExprStmt 2", "conflicts are known by what they belong to"),
	),
}

// scopeFaults: a proxy is not asked whether it belongs to another class.
var scopeFaults = [][]fault{
	in("scope.Moves.Affects", "BinaryExpr 15, CallExpr 5, SelectorExpr 25",
		instead("BinaryExpr 3", "a proxy's Pod moves it", "false"),
		instead("CallExpr 4", "a Service that selects it moves it", "false"),
		instead("SelectorExpr 12", "a Service of before moves it", "$0.New"),
		instead("SelectorExpr 13", "a Service as it is moves it", "$0.Old"),
		instead("BinaryExpr 15", "a WorkloadEntry with its address moves it", "false"),
		instead("CallExpr 5", "a selector that matches it moves it", "false"),
	),
	in("scope.Moves.mayServe", "CallExpr 5",
		instead("CallExpr 1", "a ServiceEntry that lists its address moves it", "false"),
		instead("CallExpr 3", "a Service that selects its labels moves it", "false"),
		instead("CallExpr 5", "a Service that selects a WorkloadEntry with its address moves it", "false"),
	),
}

// readFaults: a class takes over from another what depends on something that is not recorded.
var readFaults = [][]fault{
	in("scope.Scope.Service", "ExprStmt 1", without("ExprStmt 1", "which service a host is")),
	in("scope.Scope.VirtualService", "ExprStmt 1", without("ExprStmt 1", "which routes a host has")),
	in("scope.Scope.DestinationRule", "ExprStmt 1", without("ExprStmt 1", "which rule is in force")),
	in("scope.Scope.Egress", "ExprStmt 1", without("ExprStmt 1", "what a Sidecar lets in")),
	in("scope.Scope.Hosts", "ExprStmt 1", without("ExprStmt 1", "what a class has something for")),
	in("scope.Scope.Selected", "ExprStmt 1", without("ExprStmt 1", "which selectors match")),
	in("scope.Scope.IsOwn", "ExprStmt 1", without("ExprStmt 1", "whether a namespace is the class's")),
	in("scope.Scope.Namespace", "ExprStmt 1", without("ExprStmt 1", "which namespace is the class's")),
	in("scope.Scope.Sidecar", "ExprStmt 1", without("ExprStmt 1", "which Sidecar is in force")),
	in("scope.Scope.Inbound", "ExprStmt 2",
		without("ExprStmt 1", "that ports are in no outlook"),
		without("ExprStmt 2", "which ports a workload has"),
	),
	in("scope.Scope.PortConflicts", "ExprStmt 2",
		without("ExprStmt 1", "that contested ports are in no outlook"),
		without("ExprStmt 2", "which ports are contested"),
	),
	in("scope.Scope.BoundPort", "ExprStmt 1", without("ExprStmt 1", "which port a gateway binds")),
	in("scope.Scope.Refuses", "ExprStmt 1", without("ExprStmt 1", "whether policies refuse plaintext")),
	in("scope.Scope.MTLSMode", "ExprStmt 1", without("ExprStmt 1", "which calls policies accept")),
	in("scope.Scope.MTLSPolicy", "ExprStmt 1", without("ExprStmt 1", "which policy says so")),
	in("scope.Scope.PortsWithMTLS", "ExprStmt 1", without("ExprStmt 1", "which policy has modes of ports")),
	in("scope.Scope.AuthorizationPolicies", "ExprStmt 1", without("ExprStmt 1", "which policies there are")),
	in("scope.Scope.RequestAuthentications", "ExprStmt 1", without("ExprStmt 1", "which tokens are accepted")),
	in("scope.ReadSet.HoldsFor", "BinaryExpr 1, SelectorExpr 6",
		instead("SelectorExpr 1", "what is for one class is for no other", "false"),
		instead("BinaryExpr 1", "answers are compared", "false"),
	),
	in("scope.ReadSet.HoldsForViewKey", "UnaryExpr 2",
		instead("UnaryExpr 1", "what is for one class is not for all of an outlook", "true"),
		instead("UnaryExpr 2", "what depends on ports is not for all of an outlook", "true"),
	),
}
