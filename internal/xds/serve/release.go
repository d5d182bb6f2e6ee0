package serve

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// envoyAgent is how Envoys call themselves: Node.user_agent_name.
const envoyAgent = "envoy"

// Release is a proxy's release by major and minor number: 1.40 for all of 1.40.x. The zero value is
// unknown.
type Release struct{ Major, Minor uint32 }

// String returns "1.40", or "unknown".
func (r Release) String() string {
	if r == (Release{}) {
		return "unknown"
	}
	return fmt.Sprintf("%d.%d", r.Major, r.Minor)
}

// releaseOf reads Node.user_agent_build_version, which every Envoy since 1.13 sends.
func releaseOf(n *corev3.Node) Release {
	v := n.GetUserAgentBuildVersion().GetVersion()
	return Release{Major: v.GetMajorNumber(), Minor: v.GetMinorNumber()}
}

// before reports whether r is older than o, or unknown.
func (r Release) before(o Release) bool {
	return r.Major < o.Major || r.Major == o.Major && r.Minor < o.Minor
}

// oldestWithVHDSAndLEDS is the oldest Envoy that gets virtual hosts and endpoints as resources of
// their own. Envoys up to 1.37 refuse VHDS over aggregated discovery ("only 'DELTA_GRPC' is
// supported as an api_type"), and with it the whole route table. LEDS is in Envoy since 1.21, but
// hardly used, and docs/protocol.md was verified with newer ones alone. Releases that nobody has
// looked at get what always worked.
var oldestWithVHDSAndLEDS = Release{Major: 1, Minor: 38}

// oldestWithFilterLists is the oldest Envoy that gets filters as resources of their own (ECDS):
// docs/protocol.md, 1.16 was verified with no older one. Filters that change together are one
// resource, a list (envoy.filters.http.filter_chain), which older ones do not know.
var oldestWithFilterLists = Release{Major: 1, Minor: 40}

// oldestWithAddressFilters is the oldest Envoy whose dynamic forward proxy can drop addresses of
// answers (DnsCacheConfig.resolved_address_filter). Older ones would not know the field, and so
// connect to all of them.
var oldestWithAddressFilters = Release{Major: 1, Minor: 40}

// FiltersAddresses reports whether a node is an Envoy that can drop addresses that it looks up.
func (n *Node) FiltersAddresses() bool {
	return n.UserAgent == envoyAgent && !n.Release.before(oldestWithAddressFilters)
}

// TakesFilters reports whether a node is an Envoy, at a delta stream, that gets filters as
// resources of their own. To others they are parts of listeners.
func (n *Node) TakesFilters() bool {
	return n.Delta && n.UserAgent == envoyAgent && !n.Release.before(oldestWithFilterLists)
}

// takesVHDSAndLEDS reports whether a node is an Envoy that gets lists as resources of their own.
func (n *Node) takesVHDSAndLEDS() bool {
	return n.UserAgent == envoyAgent && !n.Release.before(oldestWithVHDSAndLEDS)
}
