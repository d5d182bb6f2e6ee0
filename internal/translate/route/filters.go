package route

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	faultcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	previoushostsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	previousprioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// retriableStatusCodes is Envoy's condition under which a policy's status codes count.
const retriableStatusCodes = "retriable-status-codes"

// retryPolicy translates a policy; nil for none. hashes tells that a hash picks the host.
func retryPolicy(in *model.Retries, hashes bool) *routev3.RetryPolicy {
	if in == nil || in.Attempts == 0 {
		return nil
	}
	out := &routev3.RetryPolicy{
		RetryOn:                       retryOn(in.RetryOn, in.StatusCodes),
		RetriableStatusCodes:          in.StatusCodes,
		NumRetries:                    wrapperspb.UInt32(in.Attempts),
		PerTryTimeout:                 pb.OptionalDuration(in.PerTryTimeout),
		HostSelectionRetryMaxAttempts: in.HostSelectionAttempts,
	}
	if in.IgnorePreviousHosts && !hashes { // it leads to the same host again, however often it is asked
		out.RetryHostPredicate = []*routev3.RetryPolicy_RetryHostPredicate{{
			Name: "previous_hosts", // for people: the type tells Envoy what it is
			ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
				TypedConfig: pb.Any(&previoushostsv3.PreviousHostsPredicate{}),
			},
		}}
	}
	if in.RemoteLocalities {
		out.RetryPriority = &routev3.RetryPolicy_RetryPriority{
			Name: "envoy.retry_priorities.previous_priorities",
			ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
				TypedConfig: pb.Any(&previousprioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: 2}),
			},
		}
	}
	if in.Backoff > 0 {
		out.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: pb.Duration(in.Backoff)}
	}
	return out
}

func retryOn(conditions string, statusCodes []uint32) string {
	switch {
	case len(statusCodes) == 0 || slices.Contains(strings.Split(conditions, ","), retriableStatusCodes):
		return conditions
	case conditions == "":
		return retriableStatusCodes
	}
	return conditions + "," + retriableStatusCodes
}

// filterConfig is what a route has HTTP filters do; the listener has the filters.
func filterConfig(in *model.HTTPRoute, session *model.Session) map[string]*anypb.Any {
	fault, cors := faultOf(in.Fault), corsOf(in.CORS)
	if fault == nil && cors == nil && session == nil {
		return nil
	}
	out := map[string]*anypb.Any{}
	if fault != nil {
		out["envoy.filters.http.fault"] = pb.Any(fault)
	}
	if cors != nil {
		out["envoy.filters.http.cors"] = pb.Any(cors)
	}
	if session != nil {
		out[pb.SessionFilter] = pb.Any(sessionOf(session))
	}
	return out
}

func faultOf(in *model.Fault) *faultv3.HTTPFault {
	if in == nil {
		return nil
	}
	out := &faultv3.HTTPFault{}
	if in.Delay > 0 && in.DelayPercent > 0 {
		out.Delay = &faultcommonv3.FaultDelay{
			FaultDelaySecifier: &faultcommonv3.FaultDelay_FixedDelay{FixedDelay: pb.Duration(in.Delay)},
			Percentage:         pb.Millionths(in.DelayPercent),
		}
	}
	if in.AbortPercent > 0 {
		out.Abort = abortOf(in)
	}
	if out.Delay == nil && out.Abort == nil {
		return nil
	}
	return out
}

func abortOf(in *model.Fault) *faultv3.FaultAbort {
	out := &faultv3.FaultAbort{Percentage: pb.Millionths(in.AbortPercent)}
	switch {
	case in.AbortGRPC != "":
		out.ErrorType = &faultv3.FaultAbort_GrpcStatus{GrpcStatus: uint32(grpcStatus(in.AbortGRPC))}
	case in.AbortHTTP != 0:
		out.ErrorType = &faultv3.FaultAbort_HttpStatus{HttpStatus: in.AbortHTTP}
	default:
		return nil
	}
	return out
}

// grpcStatus is the code of a status name ("UNAVAILABLE"); UNKNOWN for a name that there is not.
func grpcStatus(name string) codes.Code {
	code := codes.Unknown
	if err := code.UnmarshalJSON([]byte(strconv.Quote(name))); err != nil {
		return codes.Unknown
	}
	return code
}

func corsOf(in *model.CORS) *corsv3.CorsPolicy {
	if in == nil {
		return nil
	}
	out := &corsv3.CorsPolicy{
		AllowMethods:                 strings.Join(in.Methods, ","),
		AllowHeaders:                 strings.Join(in.Headers, ","),
		ExposeHeaders:                strings.Join(in.Expose, ","),
		FilterEnabled:                &corev3.RuntimeFractionalPercent{DefaultValue: pb.Millionths(1_000_000)},
		ForwardNotMatchingPreflights: wrapperspb.Bool(in.ForwardUnmatched == nil || *in.ForwardUnmatched),
	}
	for _, origin := range in.Origins {
		out.AllowOriginStringMatch = append(out.AllowOriginStringMatch, stringMatch(origin))
	}
	if in.AllowCredentials != nil {
		out.AllowCredentials = wrapperspb.Bool(*in.AllowCredentials)
	}
	if in.MaxAge > 0 {
		out.MaxAge = strconv.FormatInt(int64(in.MaxAge/time.Second), 10)
	}
	return out
}
