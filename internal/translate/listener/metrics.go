package listener

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datalogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	statslogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	statevaluev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	mutatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// Metrics are those that proxies keep of calls.
type Metrics struct {
	// Standard keeps Istio's standard metrics, in the form of xds/proxystats, and exchanges what
	// they need with peers.
	Standard bool
	// Hides keeps the headers of such an exchange from the workload. It is set in all proxies of a
	// mesh in which some may send them.
	Hides bool
}

// istioPeerHeaders are those by which Istio's proxies tell of their workloads.
func istioPeerHeaders() []string {
	return []string{"x-envoy-peer-metadata", "x-envoy-peer-metadata-id"}
}

// requestLog logs and counts requests.
func (c Common) requestLog() []*accesslogv3.AccessLog {
	if !c.Metrics.Standard {
		return c.accessLog()
	}
	tags := statTags(proxystats.RequestFormat(c.reporter))
	return append(c.accessLog(), statsLog(&statslogv3.Config{Histograms: []*statslogv3.Config_Histogram{
		histogram(proxystats.Duration, tags, statslogv3.Config_Histogram_Milliseconds, "%DURATION%"),
		histogram(proxystats.RequestBytes, tags, statslogv3.Config_Histogram_Bytes, "%BYTES_RECEIVED%"),
		histogram(proxystats.ResponseBytes, tags, statslogv3.Config_Histogram_Bytes, "%BYTES_SENT%"),
	}}))
}

// logConnections logs and counts connections that are not HTTP: when they are open, which is one
// entry more that is for counting alone, and when they end.
func (c Common) logConnections(p *tcpv3.TcpProxy) {
	p.AccessLog = c.accessLog()
	if !c.Metrics.Standard {
		return
	}
	for _, l := range p.AccessLog {
		l.Filter = entries(datalogv3.AccessLogType_TcpConnectionEnd)
	}
	tags := statTags(proxystats.ConnectionFormat(c.reporter))
	opened := statsLog(&statslogv3.Config{Counters: []*statslogv3.Config_Counter{
		counter(proxystats.TCPOpened, tags, ""),
	}})
	opened.Filter = entries(datalogv3.AccessLogType_TcpUpstreamConnected)
	ended := statsLog(&statslogv3.Config{Counters: []*statslogv3.Config_Counter{
		counter(proxystats.TCPClosed, tags, ""),
		counter(proxystats.TCPSent, tags, "%BYTES_SENT%"),
		counter(proxystats.TCPReceived, tags, "%BYTES_RECEIVED%"),
	}})
	ended.Filter = entries(datalogv3.AccessLogType_TcpConnectionEnd)
	p.AccessLog = append(p.AccessLog, opened, ended)
	p.AccessLogOptions = &tcpv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
}

func entries(kind datalogv3.AccessLogType) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_LogTypeFilter{
		LogTypeFilter: &accesslogv3.LogTypeFilter{Types: []datalogv3.AccessLogType{kind}},
	}}
}

// statsLog bounds the statistics of one filter chain. Envoy counts what it does not keep
// (server.stats_overflow). The chains share no bound (sharing_name), because with one an Envoy that
// only validates its configuration ends by a segmentation fault.
func statsLog(config *statslogv3.Config) *accesslogv3.AccessLog {
	config.StatsScope = &typev3.Scope{
		Prefix:        proxystats.Prefix,
		MaxCounters:   wrapperspb.UInt32(proxystats.MaxStats),
		MaxHistograms: wrapperspb.UInt32(proxystats.MaxStats),
	}
	return &accesslogv3.AccessLog{
		Name:       "envoy.access_loggers.stats",
		ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: pb.Any(config)},
	}
}

func statTags(format string) []*statslogv3.Config_Tag {
	return []*statslogv3.Config_Tag{{Name: proxystats.Tag, ValueFormat: format}}
}

func histogram(
	name string, tags []*statslogv3.Config_Tag, unit statslogv3.Config_Histogram_Unit, value string,
) *statslogv3.Config_Histogram {
	return &statslogv3.Config_Histogram{
		Stat: &statslogv3.Config_Stat{Name: name, Tags: tags}, Unit: unit, ValueFormat: value,
	}
}

// counter counts entries, or adds up a value of theirs.
func counter(name string, tags []*statslogv3.Config_Tag, value string) *statslogv3.Config_Counter {
	var fixed *wrapperspb.UInt64Value
	if value == "" {
		fixed = wrapperspb.UInt64(1)
	}
	return &statslogv3.Config_Counter{
		Stat: &statslogv3.Config_Stat{Name: name, Tags: tags}, ValueFormat: value, ValueFixed: fixed,
	}
}

// router sends requests on. For Istio's metrics it tells a peer of the mesh which workload calls,
// and nobody else: an endpoint that takes no mutual TLS of the mesh may be the application itself,
// or outside. What the caller has sent under that name goes nowhere.
func (c Common) router() *hcmv3.HttpFilter {
	router := &routerv3.Router{}
	if c.Metrics.Standard && c.reporter == proxystats.Source {
		router.UpstreamHttpFilters = []*hcmv3.HttpFilter{
			httpFilter("envoy.filters.http.header_mutation", tellPeer()),
			httpFilter("envoy.filters.http.upstream_codec", &codecv3.UpstreamCodec{}),
		}
	}
	return httpFilter("envoy.filters.http.router", router)
}

// tellPeer sets the header only where the endpoint has metadata: first to that, since a header
// without a value is not added, and then to what it is for.
func tellPeer() *mutatev3.HeaderMutation {
	set := func(value string, how corev3.HeaderValueOption_HeaderAppendAction) *mutationv3.HeaderMutation {
		return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{
			Append: &corev3.HeaderValueOption{
				Header:       &corev3.HeaderValue{Key: proxystats.PeerHeader, Value: value},
				AppendAction: how,
			},
		}}
	}
	takesTLS := "%UPSTREAM_METADATA(" + proxystats.SocketSpace + ":" + proxystats.SocketKey + ")%"
	return &mutatev3.HeaderMutation{Mutations: &mutatev3.Mutations{RequestMutations: []*mutationv3.HeaderMutation{
		{Action: &mutationv3.HeaderMutation_Remove{Remove: proxystats.PeerHeader}},
		set(takesTLS, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD),
		set("%ENVIRONMENT("+proxystats.PeerVariable+")%", corev3.HeaderValueOption_OVERWRITE_IF_EXISTS),
	}}}
}

// hearPeer keeps what a peer in mutual TLS of the mesh says of its workload, for the metrics. The
// header itself is removed by the route.
func (c Common) hearPeer(filters []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	if !c.Metrics.Standard || !c.ofMesh {
		return filters
	}
	keep := &httpstatev3.Config{OnRequestHeaders: []*statevaluev3.FilterStateValue{{
		Key:        &statevaluev3.FilterStateValue_ObjectKey{ObjectKey: proxystats.PeerState},
		FactoryKey: "envoy.string",
		Value: &statevaluev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: proxystats.PeerFormat()},
			}},
		}},
		SkipIfEmpty: true,
	}}}
	return append([]*hcmv3.HttpFilter{httpFilter("envoy.filters.http.set_filter_state", keep)}, filters...)
}

// hidden are the headers that are not for the workload.
func (c Common) hidden() []string {
	if !c.Metrics.Hides {
		return nil
	}
	return append(istioPeerHeaders(), proxystats.PeerHeader)
}
