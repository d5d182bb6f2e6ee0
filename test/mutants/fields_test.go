package mutants

// hook is a place where values are keys, or are told equal: text, which stands there so many times, is replaced.
type hook struct {
	file, text, by string
	times          int
}

var hooks = []hook{
	{"view/memo.go", "m.made[in]", `m.made[mutantKey("memo", in)]`, 3},
	{"view/compile.go", "c.classes[key]", `c.classes[mutantKey("class", key)]`, 2},
	{"view/compile.go", "delete(c.classes, old.key)", `delete(c.classes, mutantKey("class", old.key))`, 1},
	{"view/groups.go", "g.known[key]", `g.known[mutantKey("endpoint set", key)]`, 4},
	{"view/store.go", "key := content{name: r.name, version: r.version, own: r.own}", `key := mutantKey("content", content{name: r.name, version: r.version, own: r.own})`, 1},
	{"model/list.go", "maphash.WriteComparable(&h, item)", `maphash.WriteComparable(&h, mutantKey("list", item))`, 1},
	{
		"model/list.go", "slices.Equal(l.items, items)",
		`slices.EqualFunc(l.items, items, func(a, b T) bool { return mutantKey("list", a) == mutantKey("list", b) })`, 1,
	},
	{"model/canon.go", "for i := range v.NumField() {", "for i := range v.NumField() {\nif mutantSkips(v.Type(), i) {\ncontinue\n}", 1},
	{"model/same.go", "for i := range a.NumField() {", "for i := range a.NumField() {\nif mutantSkips(a.Type(), i) {\ncontinue\n}", 1},
}

// harmless are fields that a key need not look at, and why.
var harmless = map[string]string{
	"content view.content own":          "of one name and bytes, all are either own or not",
	"endpoint set view.groupKey subset": "compiling from nothing goes wrong in the same way",
	"equality listener.Common HTTP10":   "compiling from nothing goes wrong in the same way",

	"list listener.Chain Closed":           "a chain is closed if it has no targets",
	"list listener.Chain OfMesh":           "always false: listeners of service ports have no such chains",
	"list listener.Door Chain.Closed":      "a door is closed if it has neither targets nor a route table",
	"list listener.Door Chain.ForwardPort": "always zero: all doors have routes",
	"list listener.Door Chain.OfMesh":      "the chain's name tells",
	"list listener.Door RouteTable":        "made of the chain's name, of a door that is not closed",
	"list listener.InboundPort Cluster":    "made of the port",
	"list listener.InboundPort Name":       "made of the port",
	"list listener.InboundPort Port":       "in the name",
	"list model.Endpoint Account":          "always zero: clusters do not show it",
	"list model.Endpoint Health":           "always zero: clusters do not show it",
	"list model.Endpoint Hints":            "always zero: clusters do not show it",
	"list model.Endpoint Labels":           "always zero: clusters do not show it",
	"list model.Endpoint Node":             "always zero: clusters do not show it",
	"list model.Endpoint Other":            "always zero: clusters do not show it",
	"list model.Endpoint PortName":         "always zero: clusters do not show it",
	"list model.Endpoint Workload":         "always zero: clusters do not show it",
	"list route.RouteRef Owner.Kind":       "always VirtualService",

	"memo cluster.OutboundInput ForwardProxy":        "Resolution is Passthrough then, and never else",
	"memo cluster.OutboundInput Host":                "Service tells hosts apart",
	"memo listener.GatewayInput Name":                "made of the port",
	"memo listener.GatewayInput Port":                "in the name",
	"memo listener.GatewayInput RouteTable":          "made of the port",
	"memo listener.HTTPInput Bind":                   "always the sidecar's own address",
	"memo listener.HTTPInput BindToPort":             "always true",
	"memo listener.HTTPInput Name":                   "made of the port",
	"memo listener.HTTPInput Port":                   "in the name",
	"memo listener.HTTPInput RouteTable":             "always http_proxy",
	"memo listener.InboundInput Bind":                "always the pod's own address",
	"memo listener.InboundInput InboundPort.Cluster": "made of the port",
	"memo listener.InboundInput InboundPort.Name":    "made of the port",
	"memo listener.InboundInput InboundPort.Port":    "in the name",
	"memo listener.TCPInput Bind":                    "in the name",
	"memo listener.TCPInput BindToPort":              "in the name: only what binds loopback has a port",
	"memo listener.TCPInput Name":                    "made of the port",
	"memo listener.TCPInput Port":                    "in the name",
	"memo view.memberKey in.Address":                 "in the id",
	"memo view.memberKey in.Port":                    "in the id",
	"memo view.vhostKey in.Default.Host":             "in the name",
	"memo view.vhostKey in.Default.Port":             "in the name",
	"memo view.vhostKey in.Default.Subset":           "always empty",
}

// missed are faults that matter and that no checker finds within its seeds, and what a life would have to bring: work to do.
var missed = map[string]string{}
