package limits

import (
	"cmp"
	"math"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	exprv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/rate_limit_descriptors/expr/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
)

// nameKey is the key of the entry with a limit's name.
const nameKey = "limit"

// rateLimit makes the descriptor of a limit from a request: its name, unless that is empty, and
// what requests are told apart by.
func rateLimit(d *ratelimit.Descriptor) *routev3.RateLimit {
	out := &routev3.RateLimit{}
	switch condition := Condition(d.Match); {
	case condition != "":
		out.Actions = append(out.Actions, expression(nameKey, when(condition, d.Name)))
	case d.Name != "":
		out.Actions = append(out.Actions, &routev3.RateLimit_Action{
			ActionSpecifier: &routev3.RateLimit_Action_GenericKey_{
				GenericKey: &routev3.RateLimit_Action_GenericKey{DescriptorKey: nameKey, DescriptorValue: d.Name},
			},
		})
	}
	for _, b := range d.By {
		if b.Source == ratelimit.Address {
			out.Actions = append(out.Actions, &routev3.RateLimit_Action{
				ActionSpecifier: &routev3.RateLimit_Action_RemoteAddress_{
					RemoteAddress: &routev3.RateLimit_Action_RemoteAddress{},
				},
			})
			continue
		}
		out.Actions = append(out.Actions, expression(KeyOf(b), value(b)))
	}
	if d.Cost > 1 {
		out.HitsAddend = &routev3.RateLimit_HitsAddend{Number: wrapperspb.UInt64(uint64(d.Cost))}
	}
	return out
}

// expression is an entry whose value an expression comes to. With one that comes to an error there
// is no descriptor.
func expression(key, text string) *routev3.RateLimit_Action {
	return &routev3.RateLimit_Action{ActionSpecifier: &routev3.RateLimit_Action_Extension{
		Extension: &corev3.TypedExtensionConfig{
			Name: key,
			TypedConfig: packed(&exprv3.Descriptor{
				DescriptorKey: key, ExprSpecifier: &exprv3.Descriptor_Text{Text: text},
			}),
		},
	}}
}

// bucket is the token bucket of a limit, or those of all values of By: entries without a value
// stand for any.
func bucket(l *ratelimit.LocalLimit) *commonv3.LocalRateLimitDescriptor {
	out := &commonv3.LocalRateLimitDescriptor{
		Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: nameKey, Value: l.Name}},
		TokenBucket: &typev3.TokenBucket{
			MaxTokens:     uint32(cmp.Or(l.Burst, l.Requests)),
			TokensPerFill: wrapperspb.UInt32(uint32(l.Requests)),
			FillInterval:  durationpb.New(Length(l.Per)),
		},
	}
	for _, b := range l.By {
		out.Entries = append(out.Entries, &commonv3.RateLimitDescriptor_Entry{Key: KeyOf(b)})
	}
	return out
}

// unlimited is the bucket of requests that no limit counts.
func unlimited() *typev3.TokenBucket {
	return &typev3.TokenBucket{
		MaxTokens: math.MaxUint32, TokensPerFill: wrapperspb.UInt32(math.MaxUint32),
		FillInterval: durationpb.New(time.Second),
	}
}

// Length returns how long a unit is; 0 for one that does not exist.
func Length(u ratelimit.Unit) time.Duration {
	return map[ratelimit.Unit]time.Duration{
		ratelimit.Second: time.Second, ratelimit.Minute: time.Minute, ratelimit.Hour: time.Hour,
		ratelimit.Day: 24 * time.Hour,
	}[u]
}

// always applies to all requests, and to none.
func always(are bool) *corev3.RuntimeFractionalPercent {
	share := &typev3.FractionalPercent{}
	if are {
		share.Numerator = 100
	}
	return &corev3.RuntimeFractionalPercent{DefaultValue: share}
}
