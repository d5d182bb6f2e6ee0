package model

// RootRoutes is a VirtualService with routes that delegate: the routes of other VirtualServices
// stand in their places. The state joins both to one VirtualService.
type RootRoutes struct {
	// VirtualService has in the place of a delegation a route with its own conditions and settings,
	// without a destination.
	VirtualService
	Delegations []Delegation // by Route; never empty
}

// Delegation is one route of spec.http that delegates.
type Delegation struct {
	Route int // in HTTP
	To    ObjectName
	Given Given
}

// DelegateRoutes is a VirtualService without hosts. Its routes are in force only where others
// delegate to it.
type DelegateRoutes struct {
	Meta
	HTTP     []*HTTPRoute
	Given    []Given // of each route in HTTP
	ExportTo Exports
}

// Given says which settings of an HTTPRoute are written. What a delegate leaves out is taken from
// the route that delegates to it.
type Given struct {
	// Rewrite is the field alone, without the authority that headers set.
	Rewrite *Rewrite
	// HeaderAuthority and DestinationAuthority are set by a header Host: of the route, or of its
	// one destination. In Istio the second comes before Rewrite.Authority, the first after it.
	HeaderAuthority, DestinationAuthority string

	Timeout, Retries, Fault, CORS, Headers bool
	// Mirror is set if the first of HTTPRoute.Mirrors is the field mirror, Mirrors if the others
	// are written.
	Mirror, Mirrors bool
	// MirrorPercent is the share of the field mirror, in millionths, nil if it is not written.
	MirrorPercent *uint32
}

// DelegationStatus is what delegation comes to for one VirtualService: of a root, or of a delegate
// that no root names.
type DelegationStatus struct {
	Meta
	Unused   bool          // the VirtualService is a delegate, and no other one delegates to it
	Routes   []RouteOrigin // of each route in HTTP of the joined VirtualService
	Mistakes []DelegationMistake
}

// RouteOrigin is where a route of a joined VirtualService is written.
type RouteOrigin struct {
	Route int // in spec.http of the root
	// Delegate has the route as its Index-th; empty if the root has it itself.
	Delegate ObjectName
	Index    int
	// RootMirrors is set if the mirrors are those of the root.
	RootMirrors bool
}

// DelegationMistake is why a route does not delegate as written.
type DelegationMistake struct {
	Route int // in spec.http of the root
	To    ObjectName
	// Closed is set if the route answers 503. Else one route of the delegate is left out.
	Closed        bool
	Message, Want string
}
