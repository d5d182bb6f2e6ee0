package route

import (
	"cmp"
	"fmt"
	"sort"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// route makes one Envoy route. Whatever a route does, its conditions hold: a route that cannot be
// in force answers 503, so that its requests do not become the next one's.
func (t translator) route(ref RouteRef) *routev3.Route {
	in := ref.Route
	out := &routev3.Route{
		Name: routeName(ref), Match: routeMatch(ref.Match), Metadata: metadata(ref.Owner), StatPrefix: statPrefix(ref),
	}
	if reason := unusable(in); reason != "" {
		t.shut(out, in, reason)
		return out
	}

	headers := translateHeaders(in.Headers)
	switch {
	case in.Redirect != nil:
		out.Action = redirectAction(in.Redirect, t.in.Port)
	case in.Direct != nil:
		out.Action = directAction(in.Direct)
	default:
		targets := weighted(in.Destinations)
		if len(targets) == 1 {
			only := targets[0]
			headers = headers.append(translateHeaders(only.Headers))
		}
		out.Action = &routev3.Route_Route{Route: t.forward(in, targets, headers.authority)}
	}
	out.RequestHeadersToAdd, out.RequestHeadersToRemove = headers.requestAdd, headers.requestRemove
	out.ResponseHeadersToAdd, out.ResponseHeadersToRemove = headers.responseAdd, headers.responseRemove
	out.TypedPerFilterConfig = filterConfig(in, t.session(in))
	return out
}

// unusable tells why a route cannot be in force; empty for one that can.
func unusable(in *model.HTTPRoute) string {
	switch {
	case in.Broken != "":
		return in.Broken
	case in.Fault != nil && in.Fault.AbortHTTP != 0 && !isStatus(in.Fault.AbortHTTP):
		return fmt.Sprintf("fault abort status %d is not between 200 and 599", in.Fault.AbortHTTP)
	case in.Redirect != nil:
		if _, ok := redirectCode(in.Redirect.Code); !ok {
			return fmt.Sprintf("redirect code %d is none of 301, 302, 303, 307, 308", in.Redirect.Code)
		}
	case in.Direct != nil:
		if !isStatus(in.Direct.Status) {
			return fmt.Sprintf("direct response status %d is not between 200 and 599", in.Direct.Status)
		}
		if len(in.Direct.Body) > maxDirectResponseBody {
			return fmt.Sprintf(
				"direct response body has %d bytes, more than %d", len(in.Direct.Body), maxDirectResponseBody,
			)
		}
	case len(weighted(in.Destinations)) == 0:
		return "no destination has a weight"
	}
	return ""
}

// isStatus tells what Envoy takes for the status of an answer.
func isStatus(code uint32) bool { return code >= 200 && code <= 599 }

// weighted are the destinations that get requests: a single one whatever its weight, else those
// whose weight is not 0.
func weighted(all []model.Destination) []model.Destination {
	if len(all) <= 1 {
		return all
	}
	out := make([]model.Destination, 0, len(all))
	for _, d := range all {
		if d.Weight > 0 {
			out = append(out, d)
		}
	}
	return out
}

// fact is what the input knows of a destination. One that it does not know keeps its port, else
// gets the one that was called; one whose port's name nothing has keeps port 0. Envoy answers 503
// for a cluster that does not exist.
func (t translator) fact(d model.Destination) DestinationFact {
	want := DestinationFact{Host: d.Host, Port: d.Port, Subset: d.Subset, PortName: d.PortName}
	facts := t.in.Facts
	i := sort.Search(facts.Len(), func(i int) bool { return CompareFacts(facts.At(i), want) >= 0 })
	if i < facts.Len() && CompareFacts(facts.At(i), want) == 0 {
		want = facts.At(i)
	}
	if want.Resolved == 0 {
		want.Resolved = want.Port
	}
	if want.Resolved == 0 && want.PortName == "" {
		want.Resolved = t.in.Port
	}
	return want
}

// resolve names the cluster of a destination.
func (t translator) resolve(d model.Destination) Target {
	fact := t.fact(d)
	return Target{Host: cmp.Or(fact.ServedBy, d.Host), Port: fact.Resolved, Subset: d.Subset}
}

func (t translator) cluster(d model.Destination) string {
	to := t.resolve(d)
	return pb.OutboundCluster(to.Host, to.Port, to.Subset)
}

// routeName is the route's name with that of its match, as Istio joins them.
func routeName(ref RouteRef) string {
	if ref.Match != nil && ref.Match.Name != "" {
		return ref.Route.Name + "." + ref.Match.Name
	}
	return ref.Route.Name
}

// statPrefix names the statistics that Envoy keeps of the route; empty for none.
func statPrefix(ref RouteRef) string {
	if ref.Match == nil {
		return ""
	}
	return ref.Match.StatPrefix
}

// metadata names the object that a route comes from, where Istio's tools look for it.
func metadata(owner source.Key) *corev3.Metadata {
	if owner == (source.Key{}) {
		return nil
	}
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		model.OwnerFilter: {Fields: map[string]*structpb.Value{
			model.OwnerField: structpb.NewStringValue(model.RoutesOwner(owner)),
		}},
	}}
}
