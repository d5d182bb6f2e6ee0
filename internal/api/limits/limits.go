package limits

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/config/ratelimit/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	localv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	globalv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/api/ratelimit"
)

// Object is a RateLimit that has been read.
type Object struct {
	Namespace, Name string
	Spec            *ratelimit.Spec
	// Server is the host of the service of Spec.Global.
	Server model.Host
	// OnGateways is set if the object is for Gateways, or for routes on them.
	OnGateways bool
	// Routes are those that requests have to take; nil for any.
	Routes []Route
}

// Route is the routes of an object, or of one rule of it.
type Route struct {
	// Owner is the object as routes name it (model.RouteMatch), and Rule the name of a rule; empty
	// for all.
	Owner, Rule string
}

// The defaults of the API.
const (
	defaultValues  = 10_000
	defaultTimeout = 100 * time.Millisecond
)

// Patches returns what adds the filters of an object to proxies. They stand behind the filters that
// decide who may call, the local one first: a request that is refused counts for no limit, and one
// above a proxy's own limit asks no server.
func Patches(o Object) []*model.ConfigPatch {
	contexts := []model.PatchContext{model.SidecarInbound, model.GatewayContext}
	if o.OnGateways {
		contexts = contexts[1:]
	}
	filters := o.filters()
	var out []*model.ConfigPatch
	add := func(p model.ConfigPatch) {
		p.Index = len(out)
		out = append(out, &p)
	}
	for _, context := range contexts {
		for _, f := range filters {
			add(model.ConfigPatch{
				Target: model.PatchHTTPFilter, Operation: model.PatchAdd, Context: context, Class: model.BehindClass,
				Value: f.value,
			})
		}
	}
	if len(filters) == 0 {
		return nil
	}
	for _, r := range o.Routes {
		add(model.ConfigPatch{
			Target: model.PatchHTTPRoute, Operation: model.PatchMerge, Context: model.GatewayContext,
			Route: model.RouteMatch{OfRoute: true, Owner: r.Owner, Route: r.Rule}, Value: turnedOn(filters),
		})
	}
	return out
}

func (o Object) isShadow() bool { return o.Spec.Mode == ratelimit.Shadow }

// filter is a filter of requests, as the value of a patch.
type filter struct {
	name  string
	value model.PatchValue
}

// filters returns the filters in the order in which patches add them: each goes in front of the one
// before it.
func (o Object) filters() []filter {
	var out []filter
	if o.Spec.Global != nil && len(o.Spec.Global.Descriptors) > 0 {
		out = append(out, o.filter("global", o.global()))
	}
	if o.Spec.Local != nil && len(o.Spec.Local.Limits) > 0 {
		out = append(out, o.filter("local", o.local()))
	}
	return out
}

// NamePrefix begins the names of the filters of RateLimits; NAMESPACE.NAME.local follows, or
// NAMESPACE.NAME.global.
const NamePrefix = "lateen.ratelimit."

// filter packs a filter. One for some routes is turned on by them.
func (o Object) filter(kind string, config proto.Message) filter {
	name := NamePrefix + o.Namespace + "." + o.Name + "." + kind
	typed := packed(config)
	f := &hcmv3.HttpFilter{
		Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: typed}, Disabled: o.Routes != nil,
	}
	value := encoded(f)
	value.Name, value.Config = name, typed.GetTypeUrl()
	return filter{name, value}
}

// turnedOn is a route that filters act on which are disabled elsewhere.
func turnedOn(filters []filter) model.PatchValue {
	on := map[string]*anypb.Any{}
	for _, f := range filters {
		on[f.name] = packed(&routev3.FilterConfig{Config: &anypb.Any{}})
	}
	return encoded(&routev3.Route{TypedPerFilterConfig: on})
}

// local is the filter that counts in the proxy.
func (o Object) local() *localv3.LocalRateLimit {
	in := o.Spec.Local
	out := &localv3.LocalRateLimit{
		StatPrefix:                      o.statPrefix(),
		TokenBucket:                     unlimited(),
		AlwaysConsumeDefaultTokenBucket: wrapperspb.Bool(false),
		FilterEnabled:                   always(true),
		FilterEnforced:                  always(!o.isShadow()),
		MaxDynamicDescriptors:           wrapperspb.UInt32(uint32(cmp.Or(in.MaxValues, defaultValues))),
		RateLimitedAsResourceExhausted:  true,
		EnableRetryAfterHeader:          o.tells(),
	}
	for i := range in.Limits {
		l := &in.Limits[i]
		descriptor := rateLimit(&l.Descriptor)
		if o.tells() { // what no limit counts is told nothing
			descriptor.XRatelimitOption = routev3.RateLimit_DRAFT_VERSION_03
		}
		out.RateLimits = append(out.RateLimits, descriptor)
		out.Descriptors = append(out.Descriptors, bucket(l))
	}
	return out
}

// global is the filter that asks a server. It refuses nothing without an answer in shadow mode.
func (o Object) global() *globalv3.RateLimit {
	in := o.Spec.Global
	timeout := defaultTimeout
	if in.Timeout != nil {
		timeout = in.Timeout.Duration
	}
	out := &globalv3.RateLimit{
		Domain: in.Domain, StatPrefix: o.statPrefix(), Timeout: durationpb.New(timeout),
		FailureModeDeny: in.FailClosed && !o.isShadow(),
		StatusOnError:   &typev3.HttpStatus{Code: http.StatusServiceUnavailable},
		FilterEnabled:   always(true), FilterEnforced: always(!o.isShadow()),
		RateLimitedAsResourceExhausted: true,
		RateLimitService: &ratelimitv3.RateLimitServiceConfig{
			TransportApiVersion: corev3.ApiVersion_V3,
			GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
					ClusterName: fmt.Sprintf("outbound|%d||%s", in.Service.Port, o.Server),
					Authority:   string(o.Server),
				},
			}},
		},
	}
	if o.tells() {
		out.EnableXRatelimitHeaders = globalv3.RateLimit_DRAFT_VERSION_03
		out.EnableRetryAfterHeader = true
	}
	for i := range in.Descriptors {
		out.RateLimits = append(out.RateLimits, rateLimit(&in.Descriptors[i]))
	}
	return out
}

func (o Object) tells() bool { return o.Spec.ResponseHeaders == ratelimit.DraftVersion03 }

// statPrefix is NAMESPACE/NAME. Dots are the ends of parts in names of statistics.
func (o Object) statPrefix() string { return o.Namespace + "/" + strings.ReplaceAll(o.Name, ".", "_") }

// encoded is a message as the value of a patch.
func encoded(m proto.Message) model.PatchValue {
	body, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return model.PatchValue{} // it has no text that is not UTF-8, so this does not happen
	}
	return model.PatchValue{Type: string(m.ProtoReflect().Descriptor().FullName()), Body: string(body)}
}

func packed(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil // as above
	}
	return out
}
