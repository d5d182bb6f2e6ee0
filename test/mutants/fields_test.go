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
}

// harmless are fields that a key need not look at, or that no life tells apart yet, and why.
var harmless = map[string]string{
	"content view.content own":          "of one name and bytes, all are either own or not",
	"endpoint set view.groupKey subset": "compiling from nothing goes wrong in the same way",
	"equality listener.Common HTTP10":   "compiling from nothing goes wrong in the same way",

	"list listener.Chain Closed":     "a chain is closed if it has no targets",
	"list model.Endpoint Health":     "always zero: clusters do not show it",
	"list model.Endpoint Labels":     "always zero: clusters do not show it",
	"list model.Endpoint Node":       "always zero: clusters do not show it",
	"list model.Endpoint PortName":   "always zero: clusters do not show it",
	"list model.Endpoint TLS":        "always zero: clusters do not show it",
	"list model.Endpoint Workload":   "always zero: clusters do not show it",
	"list route.RouteRef Owner.Kind": "always VirtualService",
	"list scope.Target Owner.Kind":   "the host tells them apart, or else they are alike",

	"memo cluster.OutboundInput Host":            "Service tells hosts apart",
	"memo cluster.PassthroughInput ForwardProxy": "always true",
	"memo listener.GatewayInput Bind":            "always the pod's own address",
	"memo listener.GatewayInput Name":            "made of the port",
	"memo listener.GatewayInput Port":            "in the name",
	"memo listener.GatewayInput RouteTable":      "made of the port",
	"memo listener.HTTPInput Bind":               "always the sidecar's own address",
	"memo listener.HTTPInput BindToPort":         "always true",
	"memo listener.HTTPInput Name":               "made of the port",
	"memo listener.HTTPInput Port":               "in the name",
	"memo listener.HTTPInput ProxyUnknown":       "always true",
	"memo listener.HTTPInput RouteTable":         "always http_proxy",
	"memo listener.InboundInput Bind":            "always the pod's own address",
	"memo listener.InboundInput Cluster":         "made of the port",
	"memo listener.InboundInput Name":            "made of the port",
	"memo listener.InboundInput Port":            "in the name",
	"memo listener.TCPInput Bind":                "always the sidecar's own address",
	"memo listener.TCPInput BindToPort":          "always true",
	"memo listener.TCPInput Name":                "made of the port",
	"memo listener.TCPInput Port":                "in the name",
	"memo view.memberKey in.Address":             "in the id",
	"memo view.memberKey in.Port":                "in the id",
	"memo view.vhostKey in.Default.Host":         "in the name",
	"memo view.vhostKey in.Default.Port":         "in the name",
	"memo view.vhostKey in.Default.Subset":       "always empty",

	"list listener.Chain Prefixes":         "not drawn: a TCP route that changes in its destinationSubnets alone, and is in force",
	"list listener.WeightedTarget Weight":  "not drawn: a TCP route that changes in a weight alone, and is in force",
	"list model.Endpoint Locality.Subzone": "not drawn: a listed endpoint that changes in its subzone alone",
	"list route.DestinationFact Port":      "not drawn: routes that differ in a port that resolves to the same one, and hash",
	"list scope.Target Owner.Name":         "not drawn: ServiceEntries of one host that take over from each other and are alike",
	"memo view.vhostKey in.Port":           "not drawn: Gateway servers of two ports that lead to one port of the workload, of which the first goes",
}
