package listener

import (
	"slices"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	datalogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	statslogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	statevaluev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	grpcstatsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"
	mutatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	codecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// Metrics are those that proxies keep of calls.
type Metrics struct {
	// Standard keeps Istio's standard metrics, in the form of xds/proxystats unless IstioFilters
	// make them, and exchanges what they need with peers.
	Standard bool
	// IstioFilters says that the proxy's Envoy has the filters of Istio's build: these exchange
	// with their like, and keep the standard metrics.
	IstioFilters bool
	// Changed is what Telemetries say of them.
	Changed model.ChangedMetrics
}

// logs reports whether access loggers keep the metrics.
func (m Metrics) logs() bool { return m.Standard && !m.IstioFilters }

// keeps reports whether a metric is on.
func (m Metrics) keeps(metric namedMetric) bool { return !m.Changed.Of(metric.metric).Disabled }

// countsMessages reports whether a metric needs the numbers of the messages of gRPC.
func (m Metrics) countsMessages() bool {
	return m.Standard && slices.ContainsFunc(messageMetrics(), m.keeps)
}

// istioPeerHeaders are those by which Istio's proxies tell of their workloads.
func istioPeerHeaders() []string {
	return []string{"x-envoy-peer-metadata", "x-envoy-peer-metadata-id"}
}

// requestLog logs and counts requests.
func (c builder) requestLog() []*accesslogv3.AccessLog {
	log := c.accessLog()
	if !c.Metrics.logs() {
		return log
	}
	requests, durations := c.Metrics.Changed.Of(model.RequestCount), c.Metrics.Changed.Of(model.RequestDuration)
	apart := !requests.Same(durations)
	config := &statslogv3.Config{}
	if apart && !requests.Disabled {
		tags := c.statTags(requests, false)
		config.Counters = append(config.Counters, counter(proxystats.RequestsTotal, tags, ""))
	}
	for _, h := range []struct {
		metric      model.Metric
		name, value string
		unit        statslogv3.Config_Histogram_Unit
	}{
		{model.RequestDuration, proxystats.Duration, "%DURATION%", statslogv3.Config_Histogram_Milliseconds},
		{model.RequestSize, proxystats.RequestBytes, "%BYTES_RECEIVED%", statslogv3.Config_Histogram_Bytes},
		{model.ResponseSize, proxystats.ResponseBytes, "%BYTES_SENT%", statslogv3.Config_Histogram_Bytes},
	} {
		of := c.Metrics.Changed.Of(h.metric)
		if of.Disabled {
			continue
		}
		tags := c.statTags(of, apart && h.metric == model.RequestDuration)
		config.Histograms = append(config.Histograms, histogram(h.name, tags, h.unit, h.value))
	}
	if len(config.Counters)+len(config.Histograms) > 0 {
		log = append(log, statsLog(config))
	}
	return append(log, c.messagesLog()...)
}

// messagesLog counts requests of gRPC by the numbers of their messages. It is a logger of its own,
// since these may differ from request to request, and each logger has a bound of its own.
func (c builder) messagesLog() []*accesslogv3.AccessLog {
	config := &statslogv3.Config{}
	for _, m := range messageMetrics() {
		if of := c.Metrics.Changed.Of(m.metric); !of.Disabled {
			tags := append(c.statTags(of, false), &statslogv3.Config_Tag{
				Name: proxystats.MessagesTag, ValueFormat: proxystats.MessagesFormat,
			})
			config.Counters = append(config.Counters, counter(m.name, tags, ""))
		}
	}
	if len(config.Counters) == 0 {
		return nil
	}
	log := statsLog(config)
	log.Filter = &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
		HeaderFilter: &accesslogv3.HeaderFilter{Header: &routev3.HeaderMatcher{
			Name: "content-type",
			HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "application/grpc"},
			}},
		}},
	}}
	return []*accesslogv3.AccessLog{log}
}

func messageMetrics() []namedMetric {
	return []namedMetric{
		{model.RequestMessages, proxystats.RequestMessages}, {model.ResponseMessages, proxystats.ResponseMessages},
	}
}

// countMessages has the messages of gRPC counted where a metric needs their number.
func (c builder) countMessages(filters []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	if !c.Metrics.countsMessages() {
		return filters
	}
	count := &grpcstatsv3.FilterConfig{EmitFilterState: true}
	return append(filters, httpFilter("envoy.filters.http.grpc_stats", count))
}

// logConnections logs and counts connections that are not HTTP: when they are open, which is one
// entry more that is for counting alone, and when they end.
func (c builder) logConnections(p *tcpv3.TcpProxy) {
	p.AccessLog = c.accessLog()
	if !c.Metrics.logs() {
		return
	}
	opened := c.connectionLog(datalogv3.AccessLogType_TcpUpstreamConnected, connectionMetric{
		model.TCPOpened, proxystats.TCPOpened, "",
	})
	ended := c.connectionLog(
		datalogv3.AccessLogType_TcpConnectionEnd,
		connectionMetric{model.TCPClosed, proxystats.TCPClosed, ""},
		connectionMetric{model.TCPSent, proxystats.TCPSent, "%BYTES_SENT%"},
		connectionMetric{model.TCPReceived, proxystats.TCPReceived, "%BYTES_RECEIVED%"},
	)
	if opened != nil {
		for _, l := range p.AccessLog {
			l.Filter = both(l.GetFilter(), entries(datalogv3.AccessLogType_TcpConnectionEnd))
		}
		p.AccessLogOptions = &tcpv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
		p.AccessLog = append(p.AccessLog, opened)
	}
	if ended != nil {
		p.AccessLog = append(p.AccessLog, ended)
	}
}

type connectionMetric struct {
	metric      model.Metric
	name, value string
}

// connectionLog counts entries of one kind; nil if no metric does.
func (c builder) connectionLog(kind datalogv3.AccessLogType, metrics ...connectionMetric) *accesslogv3.AccessLog {
	config := &statslogv3.Config{}
	for _, m := range metrics {
		if of := c.Metrics.Changed.Of(m.metric); !of.Disabled {
			format := c.form(of).ConnectionFormat()
			config.Counters = append(config.Counters, counter(m.name, statTags(format, of), m.value))
		}
	}
	if len(config.Counters) == 0 {
		return nil
	}
	log := statsLog(config)
	log.Filter = entries(kind)
	return log
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

// form is that of a metric with what Telemetries say of its tags.
func (c builder) form(of model.ChangedMetric) proxystats.Form {
	form := proxystats.Form{By: c.reporter}
	for _, tag := range of.Tags {
		if tag.Format == "" {
			form.Without = append(form.Without, tag.Name)
		}
	}
	return form
}

// statTags are those of a metric of requests.
func (c builder) statTags(of model.ChangedMetric, uncounted bool) []*statslogv3.Config_Tag {
	form := c.form(of)
	form.Uncounted = uncounted
	return statTags(form.RequestFormat(), of)
}

func statTags(format string, of model.ChangedMetric) []*statslogv3.Config_Tag {
	tags := []*statslogv3.Config_Tag{{Name: proxystats.Tag, ValueFormat: format}}
	for _, tag := range of.Tags {
		if tag.Format != "" {
			tags = append(tags, &statslogv3.Config_Tag{Name: tag.Name, ValueFormat: tag.Format})
		}
	}
	return tags
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

// router sends requests on. It tells a peer of the mesh which workload calls, for Istio's metrics,
// and how the caller's span is named, and nobody else: an endpoint that takes no mutual TLS of the
// mesh may be the application itself, or outside. What the caller has sent under these names goes
// nowhere.
func (c builder) router() *hcmv3.HttpFilter {
	router := &routerv3.Router{SuppressEnvoyHeaders: c.Headers.NoEnvoyHeaders}
	if tells := c.tellPeer(); len(tells) > 0 {
		router.UpstreamHttpFilters = []*hcmv3.HttpFilter{
			httpFilter("envoy.filters.http.header_mutation", &mutatev3.HeaderMutation{
				Mutations: &mutatev3.Mutations{RequestMutations: tells},
			}),
			httpFilter("envoy.filters.http.upstream_codec", &codecv3.UpstreamCodec{}),
		}
	}
	return httpFilter("envoy.filters.http.router", router)
}

// tellPeer are the changes of headers for a called peer. Istio's agent sets no variable, so a proxy
// of Istio's build takes what its node says.
func (c builder) tellPeer() []*mutationv3.HeaderMutation {
	if c.reporter != proxystats.Source {
		return nil
	}
	var all []*mutationv3.HeaderMutation
	if c.Metrics.Standard {
		own := "%ENVIRONMENT(" + proxystats.PeerVariable + ")%"
		if c.Metrics.IstioFilters {
			own = proxystats.NodeFormat()
		}
		all = tellHeader(proxystats.PeerHeader, own)
	}
	if c.Tracing.Tracer != nil {
		all = append(all, tellHeader(spanHeader, c.spanName())...)
	}
	return all
}

// tellHeader sets a header only where the endpoint has metadata: first to that, since a header
// without a value is not added, and then to what it is for.
func tellHeader(name, value string) []*mutationv3.HeaderMutation {
	set := func(value string, how corev3.HeaderValueOption_HeaderAppendAction) *mutationv3.HeaderMutation {
		return &mutationv3.HeaderMutation{Action: &mutationv3.HeaderMutation_Append{
			Append: &corev3.HeaderValueOption{
				Header: &corev3.HeaderValue{Key: name, Value: value}, AppendAction: how,
			},
		}}
	}
	takesTLS := "%UPSTREAM_METADATA(" + proxystats.SocketSpace + ":" + proxystats.SocketKey + ")%"
	return []*mutationv3.HeaderMutation{
		{Action: &mutationv3.HeaderMutation_Remove{Remove: name}},
		set(takesTLS, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD),
		set(value, corev3.HeaderValueOption_OVERWRITE_IF_EXISTS),
	}
}

// hearPeer keeps what a peer in mutual TLS of the mesh says of its workload, for the metrics. The
// header itself is removed by the route.
func (c builder) hearPeer(filters []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	if c.Metrics.IstioFilters && (c.ofMesh || c.reporter == proxystats.Source) {
		return slices.Insert(filters, 0, c.exchangeHeaders())
	}
	if !c.Metrics.logs() || !c.ofMesh {
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

// hidden are the headers that are not for the workload. Its proxy may keep no metrics or spans
// where that of a caller does.
func hidden() []string { return append(istioPeerHeaders(), proxystats.PeerHeader, spanHeader) }
