package bench

// row is one benchmark as docs/performance.md shows it.
type row struct {
	stage, change string // as in its name
	text          string // what is measured
	// grows is why the cost follows the size of the mesh, and what would end that. It is shown
	// where the baseline shows that it does, and must be there then.
	grows string
}

const (
	wholeMesh = "The change is the whole mesh, or all that a class sees of it: ten times as much. " +
		"Nothing of this is on the path of a single change."
	meshConfig = "The mesh configuration is an input of all that a class sees, so each class is compiled again. " +
		"What comes out equal is not sent: of this change all but the policies."
	wholeTable = "These clients take route tables whole, as those do that do not speak VHDS: " +
		"a changed virtual host costs the bytes of its table, at each. End to end are clients that speak it."
	narrow = "A class whose Sidecar names a few hosts still walks all VirtualServices " +
		"to find those that lead to them. " +
		"The index of VirtualServices by host, asked for the hosts that the Sidecar names, would end it."
)

// titles are the stages as docs/performance.md names them.
var titles = map[string]string{
	"Ingest":    "convert",
	"Apply":     "mesh/state: apply",
	"Scope":     "scope",
	"Translate": "translate",
	"Advance":   "compile: advance",
	"Plan":      "compile: plan",
	"Compile":   "compile: new class",
	"Diff":      "xds/resource: diff",
	"Assemble":  "xds/resource: assemble",
	"Session":   "xds/session",
	"Fanout":    "xds/fanout",
	"EndToEnd":  "end to end",
}

var catalogue = []row{
	{"Ingest", "service", "a Service", ""},
	{"Ingest", "pod", "a Pod", ""},
	{"Ingest", "endpointslice", "an EndpointSlice of 3", ""},
	{"Ingest", "virtualservice", "a VirtualService", ""},
	{"Ingest", "destinationrule", "a DestinationRule", ""},
	{"Ingest", "serviceentry", "a ServiceEntry", ""},
	{"Ingest", "sidecar", "a Sidecar", ""},
	{"Ingest", "authorizationpolicy", "an AuthorizationPolicy", ""},
	{"Ingest", "envoyfilter", "an EnvoyFilter", ""},
	{"Ingest", "everything", "all objects of the mesh", wholeMesh},

	{"Apply", "endpoint", "an endpoint", ""},
	{"Apply", "service", "a Service's port", ""},
	{"Apply", "virtualservice", "a VirtualService", ""},
	{"Apply", "destinationrule", "a DestinationRule", ""},
	{"Apply", "relist", "all objects again, equal", wholeMesh},
	{"Apply", "everything", "all objects, from nothing", wholeMesh},
	{"Apply", "authorizationpolicy", "one of 1,000 AuthorizationPolicies", ""},
	{"Apply", "keyset", "the keys of an issuer (JWKS)", ""},
	{"Apply", "trustdomain", "an alias of the trust domain", ""},
	{"Apply", "httproute", "one of 1,000 HTTPRoutes", ""},
	{"Apply", "grpcroute", "a GRPCRoute", ""},
	{"Apply", "tlsroute", "a TLSRoute", ""},
	{"Apply", "tcproute", "a TCPRoute", ""},
	{"Apply", "listenerset", "one of 1,000 ListenerSets", ""},
	{"Apply", "gatewaylistener", "a listener of a Gateway with 1,000 routes and ListenerSets", ""},
	{"Apply", "referencegrant", "a ReferenceGrant", ""},
	{"Apply", "backendtlspolicy", "a BackendTLSPolicy", ""},

	{"Scope", "classify", "the class of a proxy", ""},
	{"Scope", "moves", "whether a change moves a proxy", ""},
	{"Scope", "service", "a service with routes and rules", ""},
	{"Scope", "everything", "all hosts of a class", wholeMesh},

	{"Translate", "cluster", "a cluster", ""},
	{"Translate", "endpoint", "an endpoint", ""},
	{"Translate", "listener", "a listener", ""},
	{"Translate", "virtualhost", "a virtual host", ""},
	{"Translate", "routetable", "a route table's head", ""},

	{"Advance", "endpoint", "an endpoint, 40 classes", ""},
	{"Advance", "service", "a Service's port, 40 classes", ""},
	{"Advance", "virtualservice", "a VirtualService, 40 classes", ""},
	{"Advance", "destinationrule", "a DestinationRule, 40 classes", ""},
	{"Advance", "sidecar", "a Sidecar that lets in another service", ""},
	{"Advance", "authorizationpolicy", "one of 1,000 AuthorizationPolicies", ""},
	{"Advance", "keyset", "the keys of an issuer (JWKS)", ""},
	{"Advance", "trustdomain", "an alias of the trust domain, 40 classes", meshConfig},
	{"Advance", "envoyfilter", "one of 200 EnvoyFilters", ""},
	{"Advance", "httproute", "one of 1,000 HTTPRoutes", ""},
	{"Advance", "grpcroute", "a GRPCRoute", ""},
	{"Advance", "tlsroute", "a TLSRoute", ""},
	{"Advance", "tcproute", "a TCPRoute", ""},
	{"Advance", "listenerset", "one of 1,000 ListenerSets", ""},
	{"Advance", "gatewaylistener", "a listener of a Gateway with 1,000 routes and ListenerSets", ""},
	{"Advance", "referencegrant", "a ReferenceGrant", ""},
	{"Advance", "backendtlspolicy", "a BackendTLSPolicy, 40 classes", ""},

	{"Plan", "endpoint", "an endpoint, 40 classes", ""},
	{"Plan", "service", "a Service's port, 40 classes", ""},
	{"Plan", "virtualservice", "a VirtualService, 40 classes", ""},
	{"Plan", "destinationrule", "a DestinationRule, 40 classes", ""},

	{"Compile", "open", "a class without Sidecar", wholeMesh},
	{"Compile", "wide", "a class that sees its namespace", wholeMesh},
	{"Compile", "narrow", "a class that sees three services", narrow},
	{"Compile", "gateway", "a gateway", wholeMesh},

	{"Diff", "generation", "one rule changed", ""},
	{"Diff", "class", "two classes",
		"The classes differ in what their namespaces have for themselves, " +
			"which is ten times as much in a mesh ten times as large."},
	{"Diff", "everything", "all clusters and none", wholeMesh},

	{"Assemble", "routetable", "a route table from its hosts", wholeTable},
	{"Assemble", "assignment", "a ClusterLoadAssignment of 2", ""},

	{"Session", "endpoint", "an endpoint and its ACK", ""},
	{"Session", "service", "a Service's port and its ACKs", wholeTable},
	{"Session", "virtualservice", "a VirtualService and its ACK", wholeTable},
	{"Session", "destinationrule", "a DestinationRule and its ACK", ""},
	{"Session", "reconnect", "a reconnect with nothing to send",
		"The client states the version of everything that it has, and each is compared. " +
			"Stating the version of the whole set would end it; stock Envoy has no field for that."},
	{"Session", "firstload", "a first load", wholeMesh},

	{"Fanout", "firstframe", "a frame, the first time", ""},
	{"Fanout", "nextframe", "a frame for one stream more", ""},
	{"Fanout", "endpoint", "an endpoint to 1,000 streams", ""},
	{"Fanout", "service", "a Service's port to 1,000 streams", wholeTable},
	{"Fanout", "virtualservice", "a VirtualService to 1,000 streams", wholeTable},
	{"Fanout", "destinationrule", "a DestinationRule to 1,000 streams", ""},

	{"EndToEnd", "endpoint", "an endpoint, until the last ACK", ""},
	{"EndToEnd", "service", "a Service's port, until the last ACK", ""},
	{"EndToEnd", "virtualservice", "a VirtualService, until the last ACK", ""},
	{"EndToEnd", "destinationrule", "a DestinationRule, until the last ACK", ""},
}
