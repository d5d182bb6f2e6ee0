package model

import (
	"cmp"
	"slices"
)

// EnvoyFilter changes the configuration that the control plane makes for proxies
// (networking.istio.io/v1alpha3). Objects of other kinds that add filters become one too.
type EnvoyFilter struct {
	Meta
	Selection
	// Priority orders the EnvoyFilters of one namespace: smaller ones are applied first. Of
	// extensions the filter of a larger one comes first.
	Priority int32
	// Phase is where an extension's filter stands (CompareFilters); 0 for other kinds.
	Phase   ExtensionPhase
	Patches []*ConfigPatch // in the order of the object
	// Calls are the hosts of the clusters that its values name, and those that it is annotated
	// with, sorted, each once: gateways with the patches see them.
	Calls []Host
	// Says is what it does, for people; empty for one of patches.
	Says string
}

// ProxyMatches returns by what its patches tell proxies apart, each once.
func (f *EnvoyFilter) ProxyMatches() []ProxyMatch {
	var found []ProxyMatch
	for _, p := range f.Patches {
		if p.Proxy != (ProxyMatch{}) && !slices.Contains(found, p.Proxy) {
			found = append(found, p.Proxy)
		}
	}
	return found
}

// ExtensionPhase is where the filter of a TrafficExtension or WasmPlugin stands.
type ExtensionPhase uint8

// The phases, in the order of their filters.
const (
	AuthenticationPhase ExtensionPhase = iota + 1
	AuthorizationPhase
	StatsPhase
	LastPhase
)

// CompareFilters is the order in which EnvoyFilters are applied to proxies that have both: by kind,
// then by priority, then those of the root namespace, then by age and name, as in Istio. Extensions
// come first. Each of their filters is put in front of those before, so that they are applied in
// the reverse order of their filters.
func CompareFilters(a, b *EnvoyFilter, rootNamespace string) int {
	ofRoot := func(f *EnvoyFilter) int {
		if f.Namespace == rootNamespace {
			return 0
		}
		return 1
	}
	rank := func(f *EnvoyFilter) byte {
		if f.Phase != 0 {
			return 0
		}
		return KindRank(f.Kind)
	}
	byAge := cmp.Or(
		cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name+"."+a.Namespace, b.Name+"."+b.Namespace),
		cmp.Compare(a.Kind, b.Kind),
	)
	if a.Phase != 0 && b.Phase != 0 {
		return -cmp.Or(
			cmp.Compare(a.Phase, b.Phase), cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(ofRoot(b), ofRoot(a)), byAge,
		)
	}
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Priority, b.Priority), cmp.Compare(ofRoot(a), ofRoot(b)), byAge,
	)
}

// ConfigPatch is one change. It is immutable.
type ConfigPatch struct {
	Index     int // in configPatches
	Target    PatchTarget
	Operation PatchOperation
	Context   PatchContext
	Proxy     ProxyMatch
	// Of these matches the one of the target counts. A zero one matches all.
	Listener ListenerMatch
	Route    RouteMatch
	Cluster  ClusterMatch
	Value    PatchValue
	// Class says where PatchAdd puts a filter of requests or, of an extension, of connections.
	Class FilterClass
	// Fallback says what stands for a filter that the patch adds as long as there is none: before
	// it comes, and where the first one is refused.
	Fallback Fallback
}

// Fallback is what stands for a filter that is missing.
type Fallback uint8

// The fallbacks.
const (
	// FallbackByType lets requests pass, but none pass a filter that decides who may.
	FallbackByType Fallback = iota
	// FallbackDeny lets nothing pass, and FallbackAllow all.
	FallbackDeny
	FallbackAllow
)

// IsFor reports whether the patch is for a side of calls.
func (p *ConfigPatch) IsFor(context PatchContext) bool {
	return p.Context == AnyContext || p.Context == context
}

// FilterClass is a place among the filters of requests.
type FilterClass uint8

// The places. AnyClass is the end.
const (
	AnyClass FilterClass = iota
	// AuthenticationClass is behind the filters that verify tokens.
	AuthenticationClass
	// AuthorizationClass is behind those that decide on requests.
	AuthorizationClass
	// StatsClass is before those that count.
	StatsClass
	// FirstClass is in front of those that verify tokens.
	FirstClass
	// BetweenClass is behind those that verify tokens and in front of those that decide. Filters of
	// policies are no resource of their own where there is one.
	BetweenClass
	// BehindClass is AuthorizationClass for a filter that does not decide itself.
	BehindClass
)

// PatchTarget is the kind of thing that a patch changes (applyTo).
type PatchTarget uint8

// The targets. Istio's BOOTSTRAP is none: no control plane sends one.
const (
	PatchListener PatchTarget = iota + 1
	PatchFilterChain
	PatchListenerFilter
	PatchNetworkFilter
	PatchHTTPFilter
	PatchRouteConfiguration
	PatchVirtualHost
	PatchHTTPRoute
	PatchCluster
	PatchExtensionConfig
)

// String returns the name that Istio's API has for the target.
func (t PatchTarget) String() string {
	return map[PatchTarget]string{
		PatchListener: "LISTENER", PatchFilterChain: "FILTER_CHAIN", PatchListenerFilter: "LISTENER_FILTER",
		PatchNetworkFilter: "NETWORK_FILTER", PatchHTTPFilter: "HTTP_FILTER",
		PatchRouteConfiguration: "ROUTE_CONFIGURATION", PatchVirtualHost: "VIRTUAL_HOST", PatchHTTPRoute: "HTTP_ROUTE",
		PatchCluster: "CLUSTER", PatchExtensionConfig: "EXTENSION_CONFIG",
	}[t]
}

// IsInOrder reports whether targets stand in a list whose order counts, between whose members
// others can be inserted.
func (t PatchTarget) IsInOrder() bool {
	return t == PatchListenerFilter || t == PatchNetworkFilter || t == PatchHTTPFilter || t == PatchHTTPRoute
}

// Takes reports whether an operation can be done to targets. Of a target that is not IsInOrder,
// insertions are additions.
func (t PatchTarget) Takes(o PatchOperation) bool {
	switch t {
	case PatchRouteConfiguration:
		return o.Merges()
	case PatchExtensionConfig:
		return o == PatchAdd
	case PatchHTTPRoute:
		return o != PatchReplace
	case PatchListenerFilter, PatchNetworkFilter, PatchHTTPFilter, PatchVirtualHost:
		return true
	}
	return o != PatchReplace
}

// PatchOperation is what a patch does to its target.
type PatchOperation uint8

// The operations.
const (
	PatchMerge PatchOperation = iota + 1
	PatchAdd
	PatchRemove
	PatchInsertBefore
	PatchInsertAfter
	PatchInsertFirst
	PatchReplace
	// PatchMergeLists is PatchMerge, but lists of the value take the place of those that were
	// there, in place of following them.
	PatchMergeLists
)

// String returns the name that Istio's API has for the operation.
func (o PatchOperation) String() string {
	return map[PatchOperation]string{
		PatchMerge: "MERGE", PatchAdd: "ADD", PatchRemove: "REMOVE", PatchInsertBefore: "INSERT_BEFORE",
		PatchInsertAfter: "INSERT_AFTER", PatchInsertFirst: "INSERT_FIRST", PatchReplace: "REPLACE",
		PatchMergeLists: "MERGE_AND_REPLACE_LIST",
	}[o]
}

// Merges reports whether the operation merges its value into what it matches.
func (o PatchOperation) Merges() bool { return o == PatchMerge || o == PatchMergeLists }

// Inserts reports whether the operation puts its value at a place in a list.
func (o PatchOperation) Inserts() bool {
	return o == PatchInsertBefore || o == PatchInsertAfter || o == PatchInsertFirst
}

// PatchContext is the side of calls for which a proxy has what is patched.
type PatchContext uint8

// The contexts.
const (
	AnyContext PatchContext = iota
	SidecarInbound
	SidecarOutbound
	GatewayContext
)

// ProxyMatch limits a patch to some proxies.
type ProxyMatch struct {
	// Version is a regular expression (RE2) that some part of the proxy's version of Istio matches;
	// empty for any proxy.
	Version string
	// Metadata are entries that the proxy's node metadata have, as text.
	Metadata Labels
}

// ListenerMatch selects listeners and what is in them. Empty fields match anything.
type ListenerMatch struct {
	Name string
	// Port is that of the listener, and within virtualInbound and virtualOutbound the destination
	// port of the chain.
	Port uint16
	// ListenerFilter is the name of the filter that a patch of listener filters is about.
	ListenerFilter string
	Chain          ChainMatch
}

// ChainMatch selects filter chains of a listener, and filters in them.
type ChainMatch struct {
	Name, SNI, TransportProtocol string
	// ApplicationProtocols are separated by commas; a chain must have all of them.
	ApplicationProtocols string
	DestinationPort      uint16
	// Filter is the name of a network filter, and SubFilter that of a filter of requests in it.
	Filter, SubFilter string
}

// RouteMatch selects route tables and what is in them. Empty fields match anything.
type RouteMatch struct {
	Name string
	Port uint16
	// PortName and Gateway, "namespace/name", are those of a gateway's table for TLS.
	PortName, Gateway string
	// Host and Domain select a virtual host, by its name and by one of its domains.
	Host, Domain string
	// Route is the name of a route. OfRoute says that routes are selected, if only by their action.
	Route   string
	OfRoute bool
	Action  RouteAction
	// Owner is the object that routes come from, as their metadata name it (RoutesOwner).
	Owner string
}

// RouteAction is what a route does with requests.
type RouteAction uint8

// The actions.
const (
	AnyAction RouteAction = iota
	ForwardAction
	RedirectAction
	AnswerAction
)

// ClusterMatch selects clusters. Empty fields match anything, and with a name only that counts.
type ClusterMatch struct {
	Name    string
	Port    uint16
	Service Host
	Subset  string
}

// PatchValue is the message of a patch, encoded so that nothing can change it.
type PatchValue struct {
	Type string // the full name of the message; empty for none
	Body string
	// Name is that of the message, and Config the type of what is packed in it: of a filter, its
	// configuration. They are empty for none.
	Name, Config string
}

// AddsFilter reports whether a patch of filters brings one.
func (p *ConfigPatch) AddsFilter() bool { return p.Operation != PatchRemove && !p.Operation.Merges() }
