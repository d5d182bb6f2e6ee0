package envoyfilter

import (
	"fmt"
	"math"
	"regexp"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
)

// maxVersionPattern is the longest proxyVersion, in bytes, as in Istio.
const maxVersionPattern = 1024

// leftOut and refused are what becomes of a patch with a mistake.
const (
	leftOut = "; the patch is left out"
	refused = "; all that its filter is for is refused"
)

// Read reads the patches of an EnvoyFilter, in their order. It leaves out those with mistakes.
// Where the object protects, nothing passes a filter that it adds as long as that cannot be had,
// and a filter that refuses all stands for one with a mistake. The problems have no object and no
// origin.
func Read(spec *networking.EnvoyFilter, protects bool) ([]*model.ConfigPatch, []source.Problem) {
	var patches []*model.ConfigPatch
	var problems []source.Problem
	for i, in := range spec.GetConfigPatches() {
		r := &reader{path: fmt.Sprintf("spec.configPatches[%d]", i)}
		p := r.patch(in)
		if p != nil && protects {
			r.protect(p)
		}
		problems = append(problems, r.problems...)
		if p != nil && !r.failed {
			p.Index = i
			patches = append(patches, p)
		}
	}
	return patches, problems
}

// reader reads one patch.
type reader struct {
	path     string
	failed   bool
	problems []source.Problem
}

// fail says why the patch is left out.
func (r *reader) fail(field, value, message, want string) {
	r.failed = true
	r.add(source.Error, field, source.Problem{Value: value, Message: message + leftOut, Want: want})
}

func (r *reader) warn(field, value, message, want string) {
	r.add(source.Warning, field, source.Problem{Value: value, Message: message, Want: want})
}

func (r *reader) add(severity source.Severity, field string, p source.Problem) {
	p.Severity, p.Path = severity, r.path+field
	r.problems = append(r.problems, p)
}

// patch reads the patch; nil for one that has no effect in Istio either.
func (r *reader) patch(in *networking.EnvoyFilter_EnvoyConfigObjectPatch) *model.ConfigPatch {
	target, known := targets()[in.GetApplyTo()]
	switch {
	case in.GetApplyTo() == networking.EnvoyFilter_BOOTSTRAP:
		r.warn(".applyTo", "BOOTSTRAP", "has no effect, as in istiod: proxies start without the control plane",
			"a bootstrap override of the Pod (sidecar.istio.io/bootstrapOverride)")
		return nil
	case in.GetMatch().GetContext() == networking.EnvoyFilter_WAYPOINT:
		r.warn(".match.context", "WAYPOINT", "has no effect: ambient is not served",
			"ANY, SIDECAR_INBOUND, SIDECAR_OUTBOUND or GATEWAY")
		return nil
	case !known:
		r.fail(".applyTo", in.GetApplyTo().String(), "is nothing that can be patched",
			"what the patch is for, as HTTP_FILTER")
		return nil
	case in.GetPatch() == nil:
		r.fail(".patch", "", "is missing", "an operation and a value")
		return nil
	}
	p := &model.ConfigPatch{
		Target: target, Context: model.PatchContext(in.GetMatch().GetContext()),
		Class: classes()[in.GetPatch().GetFilterClass()],
	}
	p.Operation = r.operation(target, in.GetPatch().GetOperation())
	p.Proxy = r.proxy(in.GetMatch().GetProxy())
	r.match(p, in.GetMatch())
	p.Value = r.value(p, in.GetPatch().GetValue())
	if p.Operation == model.PatchAdd && isReserved(target, p.Value.Name) {
		r.fail(".patch.value.name", p.Value.Name, "is a name of what the control plane makes itself, or none",
			"another name")
	}
	if p.Class != model.AnyClass && (p.Operation != model.PatchAdd || target != model.PatchHTTPFilter) {
		r.warn(".patch.filterClass", in.GetPatch().GetFilterClass().String(),
			"has no effect: it says where ADD puts a filter of requests", "operation ADD, and applyTo HTTP_FILTER")
		p.Class = model.AnyClass
	}
	return p
}

func targets() map[networking.EnvoyFilter_ApplyTo]model.PatchTarget {
	return map[networking.EnvoyFilter_ApplyTo]model.PatchTarget{
		networking.EnvoyFilter_LISTENER:            model.PatchListener,
		networking.EnvoyFilter_FILTER_CHAIN:        model.PatchFilterChain,
		networking.EnvoyFilter_LISTENER_FILTER:     model.PatchListenerFilter,
		networking.EnvoyFilter_NETWORK_FILTER:      model.PatchNetworkFilter,
		networking.EnvoyFilter_HTTP_FILTER:         model.PatchHTTPFilter,
		networking.EnvoyFilter_ROUTE_CONFIGURATION: model.PatchRouteConfiguration,
		networking.EnvoyFilter_VIRTUAL_HOST:        model.PatchVirtualHost,
		networking.EnvoyFilter_HTTP_ROUTE:          model.PatchHTTPRoute,
		networking.EnvoyFilter_CLUSTER:             model.PatchCluster,
		networking.EnvoyFilter_EXTENSION_CONFIG:    model.PatchExtensionConfig,
	}
}

func classes() map[networking.EnvoyFilter_Patch_FilterClass]model.FilterClass {
	return map[networking.EnvoyFilter_Patch_FilterClass]model.FilterClass{
		networking.EnvoyFilter_Patch_AUTHN: model.AuthenticationClass,
		networking.EnvoyFilter_Patch_AUTHZ: model.AuthorizationClass,
		networking.EnvoyFilter_Patch_STATS: model.StatsClass,
	}
}

// operation reads the operation. As in Istio, a target that is no member of a list in order is
// added where it would be inserted.
func (r *reader) operation(target model.PatchTarget, in networking.EnvoyFilter_Patch_Operation) model.PatchOperation {
	out, known := map[networking.EnvoyFilter_Patch_Operation]model.PatchOperation{
		networking.EnvoyFilter_Patch_MERGE:         model.PatchMerge,
		networking.EnvoyFilter_Patch_ADD:           model.PatchAdd,
		networking.EnvoyFilter_Patch_REMOVE:        model.PatchRemove,
		networking.EnvoyFilter_Patch_INSERT_BEFORE: model.PatchInsertBefore,
		networking.EnvoyFilter_Patch_INSERT_AFTER:  model.PatchInsertAfter,
		networking.EnvoyFilter_Patch_INSERT_FIRST:  model.PatchInsertFirst,
		networking.EnvoyFilter_Patch_REPLACE:       model.PatchReplace,

		networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST: model.PatchMergeLists,
	}[in]
	if !known {
		r.fail(".patch.operation", in.String(), "is no operation",
			"MERGE, MERGE_AND_REPLACE_LIST, ADD, REMOVE, REPLACE, or INSERT_ and a place")
		return 0
	}
	if out.Inserts() && !target.IsInOrder() {
		out = model.PatchAdd
	}
	if !target.Takes(out) {
		r.fail(".patch.operation", in.String(), "cannot be done to what applyTo names", wantOperation(target))
	}
	return out
}

// wantOperation names the operations of a target.
func wantOperation(target model.PatchTarget) string {
	switch target {
	case model.PatchRouteConfiguration:
		return "MERGE"
	case model.PatchExtensionConfig:
		return "ADD"
	case model.PatchHTTPRoute:
		return "ADD, REMOVE, MERGE, or INSERT_ and a place"
	case model.PatchVirtualHost:
		return "ADD, REMOVE, MERGE or REPLACE"
	}
	return "ADD, REMOVE or MERGE"
}

// proxy reads which proxies the patch is for.
func (r *reader) proxy(in *networking.EnvoyFilter_ProxyMatch) model.ProxyMatch {
	out := model.ProxyMatch{Version: in.GetProxyVersion(), Metadata: model.LabelsOf(in.GetMetadata())}
	const at = ".match.proxy.proxyVersion"
	for key, value := range in.GetMetadata() {
		if strings.ContainsAny(key, "=\n") || strings.Contains(value, "\n") {
			r.fail(".match.proxy.metadata", key, "is no entry that Lateen can compare", "a text of one line")
		}
	}
	if len(out.Version) > maxVersionPattern {
		r.fail(at, "", fmt.Sprintf("has %d characters, so that it matches no proxy", len(out.Version)),
			fmt.Sprintf("at most %d", maxVersionPattern))
	} else if _, err := regexp.Compile(out.Version); err != nil {
		r.fail(at, out.Version, "is no regular expression: "+err.Error(), `one of RE2, as '^1\.30.*'`)
	}
	return out
}

// match reads what the patch matches.
func (r *reader) match(p *model.ConfigPatch, in *networking.EnvoyFilter_EnvoyConfigObjectMatch) {
	var object string
	switch of := in.GetObjectTypes().(type) {
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Listener:
		object, p.Listener = "listener", r.listener(p.Target, of.Listener)
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_RouteConfiguration:
		object, p.Route = "routeConfiguration", r.route(p.Target, of.RouteConfiguration)
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Cluster:
		object, p.Cluster = "cluster", r.cluster(of.Cluster)
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Waypoint:
		object = "waypoint"
	}
	if want := objectOf(p.Target); object != "" && want != "" && object != want {
		r.fail(".match."+object, "", "is not what applyTo names", "match."+want)
	}
}

// objectOf returns the match that a target takes; "" for one that matches nothing.
func objectOf(target model.PatchTarget) string {
	switch target {
	case model.PatchCluster:
		return "cluster"
	case model.PatchRouteConfiguration, model.PatchVirtualHost, model.PatchHTTPRoute:
		return "routeConfiguration"
	case model.PatchExtensionConfig:
		return ""
	}
	return "listener"
}

func (r *reader) listener(target model.PatchTarget, in *networking.EnvoyFilter_ListenerMatch) model.ListenerMatch {
	const at = ".match.listener"
	chain := in.GetFilterChain()
	out := model.ListenerMatch{
		Name: in.GetName(), Port: r.port(at+".portNumber", in.GetPortNumber()), ListenerFilter: in.GetListenerFilter(),
		Chain: model.ChainMatch{
			Name: chain.GetName(), SNI: chain.GetSni(), TransportProtocol: chain.GetTransportProtocol(),
			ApplicationProtocols: chain.GetApplicationProtocols(),
			DestinationPort:      r.port(at+".filterChain.destinationPort", chain.GetDestinationPort()),
			Filter:               r.filterName(at+".filterChain.filter.name", chain.GetFilter().GetName()),
			SubFilter: r.filterName(
				at+".filterChain.filter.subFilter.name", chain.GetFilter().GetSubFilter().GetName(),
			),
		},
	}
	switch filter := chain.GetFilter(); {
	case filter == nil:
	case filter.GetName() == "":
		r.fail(at+".filterChain.filter.name", "", "is empty", "the name of a network filter, as "+connectionManager)
	case filter.GetSubFilter() != nil && target != model.PatchHTTPFilter:
		r.fail(at+".filterChain.filter.subFilter", filter.GetSubFilter().GetName(),
			"is a filter of requests, which applyTo does not name", "applyTo HTTP_FILTER")
	case filter.GetSubFilter() != nil && out.Chain.Filter != connectionManager:
		r.fail(at+".filterChain.filter.name", filter.GetName(), "has no filters of requests in it",
			connectionManager)
	case filter.GetSubFilter() != nil && filter.GetSubFilter().GetName() == "":
		r.fail(at+".filterChain.filter.subFilter.name", "", "is empty", "the name of a filter of requests")
	case target == model.PatchListener || target == model.PatchFilterChain:
		r.warn(at+".filterChain.filter", filter.GetName(), "has no effect for what applyTo names",
			"applyTo NETWORK_FILTER")
	}
	return out
}

func (r *reader) route(target model.PatchTarget, in *networking.EnvoyFilter_RouteConfigurationMatch) model.RouteMatch {
	host := in.GetVhost()
	out := model.RouteMatch{
		Name: in.GetName(), Port: r.port(".match.routeConfiguration.portNumber", in.GetPortNumber()),
		PortName: in.GetPortName(), Gateway: in.GetGateway(),
		Host: host.GetName(), Domain: host.GetDomainName(),
		Route: host.GetRoute().GetName(), OfRoute: host.GetRoute() != nil,
		Action: model.RouteAction(host.GetRoute().GetAction()),
	}
	if out.Gateway != "" && strings.Count(out.Gateway, "/") != 1 {
		r.warn(".match.routeConfiguration.gateway", out.Gateway, "is no name of a Gateway, so that nothing matches",
			"namespace/name")
	}
	if out.OfRoute && target != model.PatchHTTPRoute {
		r.warn(".match.routeConfiguration.vhost.route", out.Route, "has no effect for what applyTo names",
			"applyTo HTTP_ROUTE")
	}
	return out
}

func (r *reader) cluster(in *networking.EnvoyFilter_ClusterMatch) model.ClusterMatch {
	return model.ClusterMatch{
		Name: in.GetName(), Port: r.port(".match.cluster.portNumber", in.GetPortNumber()),
		Service: model.Host(in.GetService()), Subset: in.GetSubset(),
	}
}

func (r *reader) port(field string, n uint32) uint16 {
	if n > math.MaxUint16 {
		r.fail(field, fmt.Sprint(n), "is no port", "1 to 65535")
		return 0
	}
	return uint16(n)
}
