package convert

import (
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// retryPolicy reads a policy of a route. Its unset fields get Istio's defaults, not those of the
// mesh.
func (r *reader) retryPolicy(p path, in *networking.HTTPRetry) *model.Retries {
	out := model.DefaultRetries()
	out.Attempts = r.nonNegative(p.dot("attempts"), in.GetAttempts())
	out.PerTryTimeout = r.duration(p.dot("perTryTimeout"), in.GetPerTryTimeout())
	out.Backoff = r.duration(p.dot("backoff"), in.GetBackoff())
	out.RemoteLocalities = in.GetRetryRemoteLocalities().GetValue()
	if v := in.GetRetryIgnorePreviousHosts(); v != nil {
		out.IgnorePreviousHosts = v.GetValue()
	}
	if in.GetRetryOn() != "" {
		out.RetryOn, out.StatusCodes = r.retryOn(p.dot("retryOn"), in.GetRetryOn())
	}
	if out.Attempts == 0 { // nothing else matters
		return &model.Retries{}
	}
	return out
}

// statusCodes is Envoy's condition that goes with a list of status codes.
const statusCodes = "retriable-status-codes"

// retryOn reads Envoy's conditions, and status codes among them.
func (r *reader) retryOn(p path, text string) (string, []uint32) {
	var conditions []string
	var codes []uint32
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		code, err := strconv.ParseUint(word, 10, 32)
		switch {
		case err == nil && code >= 100 && code <= 599:
			codes = append(codes, uint32(code))
		case isRetryCondition(word):
			if !slices.Contains(conditions, word) {
				conditions = append(conditions, word)
			}
		default:
			r.fail(p, word, "is no condition for a retry", "one of "+retryConditions+", or a status code")
		}
	}
	if len(codes) > 0 && !slices.Contains(conditions, statusCodes) {
		conditions = append(conditions, statusCodes)
	}
	slices.Sort(codes)
	return strings.Join(conditions, ","), slices.Compact(codes)
}

// retryConditions are those of Envoy, for HTTP and for gRPC.
const retryConditions = "5xx, gateway-error, reset, reset-before-request, connect-failure, " +
	"envoy-ratelimited, retriable-4xx, " +
	"refused-stream, retriable-status-codes, retriable-headers, http3-post-connect-failure, " +
	"cancelled, deadline-exceeded, " +
	"internal, resource-exhausted, unavailable"

func isRetryCondition(word string) bool {
	for known := range strings.SplitSeq(retryConditions, ", ") {
		if word == known {
			return true
		}
	}
	return false
}

func (r *reader) fault(p path, in *networking.HTTPFaultInjection) *model.Fault {
	if in == nil {
		return nil
	}
	out := &model.Fault{}
	if in.GetDelay() == nil && in.GetAbort() == nil {
		r.fail(p, nil, "is empty", "delay, abort or both")
	}
	r.delay(p.dot("delay"), in.GetDelay(), out)
	r.abort(p.dot("abort"), in.GetAbort(), out)
	return out
}

func (r *reader) delay(p path, in *networking.HTTPFaultInjection_Delay, out *model.Fault) {
	if in == nil {
		return
	}
	switch {
	case in.GetExponentialDelay() != nil:
		r.fail(p.dot("exponentialDelay"), nil, "is not supported", "fixedDelay")
	case in.GetFixedDelay() == nil:
		r.fail(p.dot("fixedDelay"), nil, "is missing", "a duration")
	}
	out.Delay = r.duration(p.dot("fixedDelay"), in.GetFixedDelay())
	old := in.GetPercent() //nolint:staticcheck // deprecated, and in use
	switch {
	case in.GetPercentage() != nil:
		out.DelayPercent = r.percent(p.dot("percentage"), in.GetPercentage())
	case old != 0:
		out.DelayPercent = r.wholePercent(p.dot("percent"), old) * (hundredPercent / 100)
	default:
		r.warn(p.dot("percentage"), nil, "is missing, so no request is delayed", "a number from 0 to 100")
	}
}

func (r *reader) abort(p path, in *networking.HTTPFaultInjection_Abort, out *model.Fault) {
	if in == nil {
		return
	}
	switch kind := in.GetErrorType().(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		if kind.HttpStatus < 200 || kind.HttpStatus > 599 {
			r.fail(p.dot("httpStatus"), kind.HttpStatus, "is no status of a response", "a number from 200 to 599")
			break
		}
		out.AbortHTTP = uint32(kind.HttpStatus)
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		out.AbortGRPC = kind.GrpcStatus
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(strconv.Quote(kind.GrpcStatus))); err != nil {
			r.fail(p.dot("grpcStatus"), kind.GrpcStatus, "is no status of gRPC", `a name as "UNAVAILABLE"`)
		}
	case *networking.HTTPFaultInjection_Abort_Http2Error:
		r.fail(p.dot("http2Error"), kind.Http2Error, "is not supported", "httpStatus or grpcStatus")
	default:
		r.fail(p, nil, "says nothing to answer with", "httpStatus or grpcStatus")
	}
	if in.GetPercentage() == nil {
		r.warn(p.dot("percentage"), nil, "is missing, so no request is aborted", "a number from 0 to 100")
		return
	}
	out.AbortPercent = r.percent(p.dot("percentage"), in.GetPercentage())
}

func (r *reader) cors(p path, in *networking.CorsPolicy) *model.CORS {
	if in == nil {
		return nil
	}
	out := &model.CORS{MaxAge: r.durationOrZero(p.dot("maxAge"), in.GetMaxAge())}
	for i, origin := range in.GetAllowOrigins() {
		at := p.dot("allowOrigins").at(i)
		match := r.stringMatch(at, origin, false)
		if origin.GetMatchType() == nil {
			r.fail(at, nil, "says nothing to compare with", "one of exact, prefix, regex")
		}
		if match != nil {
			out.Origins = append(out.Origins, *match)
		}
	}
	old := in.GetAllowOrigin() //nolint:staticcheck // deprecated, and in use
	if len(old) > 0 && len(in.GetAllowOrigins()) > 0 {
		r.warn(p.dot("allowOrigin"), nil, "has no effect beside allowOrigins", "allowOrigins alone")
		old = nil
	}
	for _, origin := range old {
		out.Origins = append(out.Origins, model.StringMatch{Kind: model.Exact, Value: origin})
	}
	out.Methods = r.tokens(p.dot("allowMethods"), in.GetAllowMethods())
	out.Headers = r.tokens(p.dot("allowHeaders"), in.GetAllowHeaders())
	out.Expose = r.tokens(p.dot("exposeHeaders"), in.GetExposeHeaders())
	if v := in.GetAllowCredentials(); v != nil {
		allow := v.GetValue()
		out.AllowCredentials = &allow
	}
	forward := in.GetUnmatchedPreflights() == networking.CorsPolicy_FORWARD
	switch in.GetUnmatchedPreflights() {
	case networking.CorsPolicy_UNSPECIFIED:
	case networking.CorsPolicy_FORWARD, networking.CorsPolicy_IGNORE:
		out.ForwardUnmatched = &forward
	default:
		r.fail(
			p.dot("unmatchedPreflights"), in.GetUnmatchedPreflights(), "is no way to treat them", "FORWARD or IGNORE",
		)
	}
	return out
}

// tokens reads names of methods or headers. "*" is a valid name, and stands for all.
func (r *reader) tokens(p path, list []string) []string {
	for i, name := range list {
		if !isToken(name) {
			r.fail(p.at(i), name, "is no name of a method or a header", wantHeader)
		}
	}
	return slices.Clone(list)
}
