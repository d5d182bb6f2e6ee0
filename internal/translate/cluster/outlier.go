package cluster

import (
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	commonmatcherv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// enforced ejects at each detection.
const enforced = 100

// outlier ejects endpoints that fail, and says below which share of healthy ones Envoy sends to all
// of them.
//
// That share (panic threshold) is Istio's minHealthPercent. Without outlier detection it is 0 as
// well, where Envoy's default is half: the endpoints which are pushed as draining or unhealthy must
// not get requests because they are many.
//
// Ejections must not be merged (docs/protocol.md, 1.14): by default Envoy's workers hear of one up
// to a second late, and until then call an endpoint that has died even though its callers have
// acknowledged its health status.
func (b *builder) outlier(o *model.OutlierDetection) {
	b.cluster.CommonLbConfig.HealthyPanicThreshold = &typev3.Percent{}
	if o == nil {
		return
	}
	b.cluster.CommonLbConfig.UpdateMergeWindow = pb.Duration(0)
	b.cluster.CommonLbConfig.HealthyPanicThreshold.Value = float64(min(o.MinHealthPercent, 100))
	d := &clusterv3.OutlierDetection{
		Interval:         pb.OptionalDuration(o.Interval),
		BaseEjectionTime: pb.OptionalDuration(o.BaseEjection),
		// 0 cannot be told from unset in Istio's API and takes Envoy's default, 10.
		MaxEjectionPercent: pb.OptionalUint32(min(o.MaxEjectionPercent, 100)),
		// Istio's API has no detection by success rate, which Envoy would add.
		EnforcingSuccessRate: wrapperspb.UInt32(0),
	}
	// Unset leaves Envoy's defaults: ejection after 5 server errors in a row, none for gateway
	// errors alone.
	d.Consecutive_5Xx, d.EnforcingConsecutive_5Xx = consecutive(o.Consecutive5xx)
	d.ConsecutiveGatewayFailure, d.EnforcingConsecutiveGatewayFailure = consecutive(o.ConsecutiveGateway)
	if o.SplitLocal {
		d.SplitExternalLocalOriginErrors = true
		d.EnforcingLocalOriginSuccessRate = wrapperspb.UInt32(0)
		if o.ConsecutiveLocal != nil && *o.ConsecutiveLocal > 0 {
			d.ConsecutiveLocalOriginFailure, d.EnforcingConsecutiveLocalOriginFailure = consecutive(o.ConsecutiveLocal)
		}
	}
	b.cluster.OutlierDetection = d
	if len(o.ErrorCodes) > 0 {
		b.http().OutlierDetection = &httpv3.HttpProtocolOptions_OutlierDetection{ErrorMatcher: statuses(o.ErrorCodes)}
	}
}

// statuses matches responses with one of these statuses.
func statuses(codes []uint32) *commonmatcherv3.MatchPredicate {
	texts := make([]string, len(codes))
	for i, code := range codes {
		texts[i] = strconv.Itoa(int(code))
	}
	status := &routev3.HeaderMatcher{Name: ":status", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
		StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
			SafeRegex: &matcherv3.RegexMatcher{Regex: strings.Join(texts, "|")},
		}},
	}}
	return &commonmatcherv3.MatchPredicate{Rule: &commonmatcherv3.MatchPredicate_HttpResponseHeadersMatch{
		HttpResponseHeadersMatch: &commonmatcherv3.HttpHeadersMatch{Headers: []*routev3.HeaderMatcher{status}},
	}}
}

// consecutive is a number of failures and whether they eject: 0 switches the detection off.
func consecutive(n *uint32) (count, enforcing *wrapperspb.UInt32Value) {
	switch {
	case n == nil:
		return nil, nil
	case *n == 0:
		return wrapperspb.UInt32(0), wrapperspb.UInt32(0)
	}
	return wrapperspb.UInt32(*n), wrapperspb.UInt32(enforced)
}
