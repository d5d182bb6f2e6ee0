package route

import (
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// forward sends requests on to targets. A cluster that does not exist answers 503, Envoy's default,
// unless the route says otherwise.
func (t translator) forward(in *model.HTTPRoute, targets []model.Destination, authority string) *routev3.RouteAction {
	out := &routev3.RouteAction{
		HashPolicy: hashPolicies(t.hashes(targets)...), AppendXForwardedHost: t.in.ForwardedHost,
	}
	setTargets(out, t, targets)
	setTimeout(out, in.Timeout)
	if in.AnswersMissing500 {
		out.ClusterNotFoundResponseCode = routev3.RouteAction_INTERNAL_SERVER_ERROR
	}
	if in.Rewrite != nil {
		setPathRewrite(out, in.Rewrite)
		if in.Rewrite.Authority != "" {
			authority = in.Rewrite.Authority
		}
	}
	if authority != "" {
		out.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: authority}
	}
	for _, m := range in.Mirrors {
		if m.Percent > 0 {
			out.RequestMirrorPolicies = append(out.RequestMirrorPolicies, &routev3.RouteAction_RequestMirrorPolicy{
				Cluster:         t.cluster(m.Destination),
				RuntimeFraction: &corev3.RuntimeFractionalPercent{DefaultValue: pb.Millionths(m.Percent)},
				TraceSampled:    wrapperspb.Bool(false),
			})
		}
	}
	retries := in.Retries
	if retries == nil {
		retries = t.in.Retries
	}
	out.RetryPolicy = retryPolicy(retries, len(out.HashPolicy) > 0)
	return out
}

func setTargets(out *routev3.RouteAction, t translator, targets []model.Destination) {
	if len(targets) == 1 {
		out.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: t.cluster(targets[0])}
		return
	}
	clusters := make([]*routev3.WeightedCluster_ClusterWeight, 0, len(targets))
	for _, d := range targets {
		headers := translateHeaders(d.Headers)
		c := &routev3.WeightedCluster_ClusterWeight{
			Name:                    t.cluster(d),
			Weight:                  wrapperspb.UInt32(d.Weight),
			RequestHeadersToAdd:     headers.requestAdd,
			RequestHeadersToRemove:  headers.requestRemove,
			ResponseHeadersToAdd:    headers.responseAdd,
			ResponseHeadersToRemove: headers.responseRemove,
		}
		if headers.authority != "" {
			c.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{
				HostRewriteLiteral: headers.authority,
			}
		}
		clusters = append(clusters, c)
	}
	out.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{
		WeightedClusters: &routev3.WeightedCluster{Clusters: clusters},
	}
}

// setTimeout limits a request; 0 lifts Envoy's default of 15 s. A grpc-timeout header of the
// client's is honoured up to the same limit. The newer max_stream_duration will not do: where it is
// set, if only for that header, Envoy ignores timeout.
func setTimeout(out *routev3.RouteAction, d time.Duration) {
	out.Timeout = pb.Duration(d)
	out.MaxGrpcTimeout = pb.Duration(d) //nolint:staticcheck // deprecated, see above
}

// setPathRewrite replaces what the route's path condition matched: the prefix, or for an exact path
// or an expression the whole path. Slashes stay as written: "/v1" rewritten to "/" makes "//x" of
// "/v1/x", in Istio as here.
func setPathRewrite(out *routev3.RouteAction, in *model.Rewrite) {
	if in.Regex != "" {
		out.RegexRewrite = regexRewrite(in)
		return
	}
	out.PrefixRewrite = in.URI
}

func regexRewrite(in *model.Rewrite) *matcherv3.RegexMatchAndSubstitute {
	return &matcherv3.RegexMatchAndSubstitute{Pattern: regex(in.Regex), Substitution: in.Substitution}
}

// hashes are the hash policies of the targets, each once: the subsets of one host mostly share
// theirs.
func (t translator) hashes(targets []model.Destination) []*model.HashPolicy {
	var out []*model.HashPolicy
	for _, d := range targets {
		hash := t.fact(d).Hash
		if hash != nil && !slices.ContainsFunc(out, hash.Equal) {
			out = append(out, hash)
		}
	}
	return out
}

func hashPolicies(hashes ...*model.HashPolicy) []*routev3.RouteAction_HashPolicy {
	var out []*routev3.RouteAction_HashPolicy
	for _, h := range hashes {
		if h != nil {
			out = append(out, hashPolicy(h))
		}
	}
	return out
}

func hashPolicy(h *model.HashPolicy) *routev3.RouteAction_HashPolicy {
	switch {
	case h.Header != "":
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{
			Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: h.Header},
		}}
	case h.Query != "":
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: h.Query},
		}}
	case h.Cookie != "":
		cookie := &routev3.RouteAction_HashPolicy_Cookie{Name: h.Cookie, Path: h.CookiePath}
		if h.CookieTTLSet { // Envoy makes a cookie only then; 0 is one for the browser's session
			cookie.Ttl = pb.Duration(h.CookieTTL)
		}
		for _, a := range h.Attributes {
			cookie.Attributes = append(cookie.Attributes, &routev3.RouteAction_HashPolicy_CookieAttribute{
				Name: a.Name, Value: a.Value,
			})
		}
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Cookie_{Cookie: cookie}}
	}
	return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_ConnectionProperties_{
		ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
	}}
}

// redirectCode is Envoy's name of a code, and whether it has one; 0 is Istio's default.
func redirectCode(code uint32) (routev3.RedirectAction_RedirectResponseCode, bool) {
	switch code {
	case 0, 301:
		return routev3.RedirectAction_MOVED_PERMANENTLY, true
	case 302:
		return routev3.RedirectAction_FOUND, true
	case 303:
		return routev3.RedirectAction_SEE_OTHER, true
	case 307:
		return routev3.RedirectAction_TEMPORARY_REDIRECT, true
	case 308:
		return routev3.RedirectAction_PERMANENT_REDIRECT, true
	}
	return 0, false
}

// redirectAction redirects to another URL. uri replaces the whole path.
func redirectAction(in *model.Redirect, called uint16) *routev3.Route_Redirect {
	code, _ := redirectCode(in.Code) // the code of a usable route is known
	out := &routev3.RedirectAction{
		HostRedirect: in.Authority,
		ResponseCode: code,
		PortRedirect: redirectPort(in, called),
	}
	switch {
	case in.URI != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: in.URI}
	case in.Path != nil && in.Path.Regex != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: regexRewrite(in.Path)}
	case in.Path != nil:
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: in.Path.URI}
	}
	if in.Scheme != "" {
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: in.Scheme}
	}
	return &routev3.Route_Redirect{Redirect: out}
}

// redirectPort is the port to name in the URL; 0 for none, which is the scheme's default.
func redirectPort(in *model.Redirect, called uint16) uint32 {
	port := in.Port
	if in.PortFromRequest {
		port = called
	}
	switch {
	case in.Scheme != "https" && port == 80, in.Scheme == "https" && port == 443:
		return 0
	case in.Scheme == "" && in.PortFromRequest && port == 443: // TLS came in there
		return 0
	}
	return uint32(port)
}

func directAction(in *model.DirectResponse) *routev3.Route_DirectResponse {
	out := &routev3.DirectResponseAction{Status: in.Status}
	switch {
	case len(in.Body) == 0:
	case utf8.Valid(in.Body): // readable in dumps
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: string(in.Body)}}
	default:
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: in.Body}}
	}
	return &routev3.Route_DirectResponse{DirectResponse: out}
}

// maxReason keeps what a broken route says to a few lines; in bytes.
const maxReason = 512

// closedKey is where the metadata of a closed route, under "lateen", says why it is closed. Access
// logs have it by %METADATA(ROUTE:lateen:closed)%.
const closedKey = "closed"

// shut makes a route answer that it is not in force, and says why: to callers within the mesh in
// the body, and for strangers in the route's metadata alone.
func (t translator) shut(out *routev3.Route, in *model.HTTPRoute, reason string) {
	reason = shortened(reason)
	status := uint32(http.StatusServiceUnavailable)
	if in.AnswersMissing500 {
		status = http.StatusInternalServerError
	}
	if !t.in.Strangers {
		out.Action = brokenAction(status, reason)
		return
	}
	out.Action = brokenAction(status, "its object's status says why")
	why := &structpb.Struct{Fields: map[string]*structpb.Value{closedKey: structpb.NewStringValue(reason)}}
	if out.Metadata == nil {
		out.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
	}
	out.Metadata.FilterMetadata["lateen"] = why
}

func shortened(reason string) string {
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return strings.ToValidUTF8(reason, "\uFFFD")
}

// brokenAction answers for a route that is not in force, and says so to people.
func brokenAction(status uint32, reason string) *routev3.Route_DirectResponse {
	return directAction(&model.DirectResponse{
		Status: status,
		Body:   []byte("This route is not in force: " + reason + "\n"),
	})
}
