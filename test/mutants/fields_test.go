package mutants

import (
	"go/ast"
	"testing"
)

// hook is a place where values are keys, or are told equal: before and after stand around one of
// its parts.
type hook struct {
	place
	part          int // of parts, or one of those below
	before, after string
}

const (
	whole = -1 // the node itself
	begin = -2 // where the body of a loop begins
)

// key has a hook leave a field out of what is a key.
func key(function, node string, part int, site string) hook {
	return hook{place{function, node}, part, `mutantKey("` + site + `", `, ")"}
}

// keys is like key, of a slice of them.
func keys(function, node string, part int, site string) hook {
	return hook{place{function, node}, part, `mutantKeys("` + site + `", `, ")"}
}

// fields has a loop over the fields of a struct skip one.
func fields(function, node string) hook {
	return hook{place{function, node}, begin, "\nif mutantSkips($0.Type(), $1) {\ncontinue\n}", ""}
}

var hooks = []hook{
	key("compile.memo.get", "CallExpr m.results.Find(in)", 1, "memo"),
	key("compile.memo.get", "ExprStmt m.results.Put(in, nil)", 1, "memo"),
	key("compile.memo.get", "ExprStmt m.results.Put(in, r)", 1, "memo"),
	key("compile.stepCache.editFor", "IndexExpr b.known[by] #1", 1, "outlook"),
	key("compile.stepCache.editFor", "IndexExpr b.known[by] #2", 1, "outlook"),
	key("compile.stepCache.editLike", "IndexExpr b.done[key] #1", 1, "alike"),
	key("compile.stepCache.editLike", "IndexExpr b.done[key] #2", 1, "alike"),
	key("compile.stepCache.editLike", "IndexExpr b.done[key] #3", 1, "alike"),
	key("compile.stepCache.editLike", "IndexExpr b.done[key] #4", 1, "alike"),
	key("compile.compiled.keyOf", "IndexExpr c.classes[key]", 1, "class"),
	key("compile.compiled.place", "IndexExpr c.classes[key]", 1, "class"),
	key("compile.compiled.rename", "IndexExpr c.classes[key] #1", 1, "class"),
	key("compile.compiled.release", "ExprStmt delete(c.classes, old.key)", 2, "class"),
	key("compile.groups.get", "CallExpr g.known.Get(key)", 1, "endpoint set"),
	key("compile.groups.get", "ExprStmt g.known.Put(key, l)", 1, "endpoint set"),
	key("compile.groups.update", "CallExpr g.known.Get(key)", 1, "endpoint set"),
	key("compile.groups.update", "ExprStmt g.known.Put(key, to)", 1, "endpoint set"),
	key("compile.Store.Canonical", "CompositeLit content{…", whole, "content"),
	key("model.Interner.hash", "ExprStmt maphash.WriteComparable(&h, item)", 2, "list"),
	keys("model.Interner.List", "CallExpr slices.Equal(l.items, items)", 1, "list"),
	keys("model.Interner.List", "CallExpr slices.Equal(l.items, items)", 2, "list"),
	fields("model.hasher.add", "RangeStmt for i := range v.NumField(…"),
	fields("model.equalValues", "RangeStmt for i…"),
}

func (h hook) insertions(t *testing.T, tr *tree) (file string, list []insertion) {
	file, node := tr.find(t, h.place)
	around := node
	switch h.part {
	case whole:
	case begin:
		at := tr.files.Position(node.(*ast.RangeStmt).Body.Lbrace).Offset + 1
		return file, []insertion{{at, 0, tr.with(h.before, file, node)}}
	default:
		around = parts(node)[h.part]
	}
	from, to := tr.offsets(around)
	return file, []insertion{{from, 3_000_000, h.before}, {to, -3_000_000, h.after}}
}

// outbound is why the policy before a step or the one after it is enough.
const outbound = "one is as the other: in a step that changes it nothing is shared"

// harmless are fields that a key need not look at, and why.
var harmless = map[string]string{
	"alike scope.SharingKey now.DynamicDNS":             outbound,
	"alike scope.SharingKey now.Proxy.Host":             outbound,
	"alike scope.SharingKey now.Proxy.Port":             outbound,
	"alike scope.SharingKey now.Proxy.Subset":           outbound,
	"alike scope.SharingKey now.RegistryOnly":           outbound,
	"alike scope.SharingKey was.DynamicDNS":             outbound,
	"alike scope.SharingKey was.Proxy.Host":             outbound,
	"alike scope.SharingKey was.Proxy.Port":             outbound,
	"alike scope.SharingKey was.Proxy.Subset":           outbound,
	"alike scope.SharingKey was.RegistryOnly":           outbound,
	"outlook scope.ViewKey SharingKey.now.DynamicDNS":   outbound,
	"outlook scope.ViewKey SharingKey.now.Proxy.Host":   outbound,
	"outlook scope.ViewKey SharingKey.now.Proxy.Port":   outbound,
	"outlook scope.ViewKey SharingKey.now.Proxy.Subset": outbound,
	"outlook scope.ViewKey SharingKey.now.RegistryOnly": outbound,
	"outlook scope.ViewKey SharingKey.was.DynamicDNS":   outbound,
	"outlook scope.ViewKey SharingKey.was.Proxy.Host":   outbound,
	"outlook scope.ViewKey SharingKey.was.Proxy.Port":   outbound,
	"outlook scope.ViewKey SharingKey.was.Proxy.Subset": outbound,
	"outlook scope.ViewKey SharingKey.was.RegistryOnly": outbound,

	"outlook scope.ViewKey matches": "a step asks which patches are for its proxies (Scope.ProxyMatches)",
	"equality ConfigPatch Index":    "only told: where the patch stands",
	"equality PatchValue Type":      "the target tells",
	"equality PatchValue Name":      "in the body",
	"equality PatchValue Config":    "in the body",
	"list patch.Patch Apart":        "the value tells: it has no configuration then",

	"outlook scope.ViewKey SharingKey.listeners": "the Sidecar in force follows from the rest of the key",

	"alike scope.SharingKey proxy":                          "gateways share nothing",
	"alike scope.SharingKey settings.AllClusters":           "only gateways have it, which share nothing",
	"alike scope.SharingKey settings.OwnGateways":           "only gateways have it, which share nothing",
	"alike scope.SharingKey settings.Topology":              "only gateways have it, which share nothing",
	"outlook scope.ViewKey SharingKey.settings.Topology":    "only gateways have it, which share nothing",
	"outlook scope.ViewKey SharingKey.proxy":                "gateways share nothing",
	"outlook scope.ViewKey SharingKey.settings.AllClusters": "only gateways have it, which share nothing",
	"outlook scope.ViewKey SharingKey.settings.OwnGateways": "only gateways have it, which share nothing",
	"outlook scope.ViewKey SharingKey.settings.Transparent": "its unit depends on ports, which are in no outlook",

	"content content placeholders":            "of one name and bytes, all have placeholders or none",
	"endpoint set groupKey subset":            "compiling from nothing goes wrong in the same way",
	"equality listener.Common HTTP10":         "compiling from nothing goes wrong in the same way",
	"equality listener.Filter Name":           "the type tells",
	"equality listener.AuthFilters ClosesTCP": "the filters of connections tell",

	"list listener.Chain Closed":                  "a chain is closed if it has no targets",
	"list listener.Chain OfMesh":                  "always false: listeners of service ports have no such chains",
	"list listener.ServerChain Chain.Closed":      "a chain is closed if it has neither targets nor a route table",
	"list listener.ServerChain Chain.DynamicDNS":  "always false: all server chains have routes",
	"list listener.ServerChain Chain.ForwardPort": "always zero: all server chains have routes",
	"list listener.ServerChain Chain.OfMesh":      "the chain's name tells",
	"list listener.ServerChain RouteTable":        "made of the chain's name, of a server chain that is not closed",
	"list listener.InboundPort Cluster":           "made of the port",
	"list listener.InboundPort Name":              "made of the port",
	"list listener.InboundPort Port":              "in the name",
	"list route.RouteRef Owner.Kind":              "always VirtualService",

	"memo cluster.OutboundInput ForwardProxy":        "Resolution is Passthrough then, and never else",
	"memo cluster.OutboundInput Host":                "Service tells hosts apart",
	"memo fallbackKey in.DynamicDNS":                 "the cluster tells",
	"memo listener.GatewayInput Name":                "made of the port",
	"memo listener.GatewayInput Port":                "in the name",
	"memo listener.GatewayInput RouteTable":          "made of the port",
	"memo listener.HTTPInput Bind":                   "in the name",
	"memo listener.HTTPInput Name":                   "made of Bind and Port",
	"memo listener.HTTPInput Port":                   "in the name",
	"memo listener.InboundInput InboundPort.Cluster": "made of the port",
	"memo listener.InboundInput InboundPort.Name":    "made of the port",
	"memo listener.InboundInput InboundPort.Port":    "in the name",
	"memo listener.TCPInput Bind":                    "in the name",
	"memo listener.TCPInput Name":                    "made of the port",
	"memo listener.TCPInput Port":                    "in the name",
	"memo memberKey in.Address":                      "in the id",
	"memo memberKey in.Port":                         "in the id",
	"memo vhostKey in.Default.Host":                  "in the name",
	"memo vhostKey in.Default.Port":                  "in the name",
	"memo vhostKey in.Default.Subset":                "always empty",
	"memo vhostKey in.Strangers":                     "route tables of gateways have names of their own",
}

// missed are faults that matter and that no checker finds within its seeds, and what a life would
// have to bring: work to do.
var missed = map[string]string{
	"field: list listener.ServerChain Chain.Targets": "a TLS route of a Gateway hardly ever changes its " +
		"destination alone",
}
