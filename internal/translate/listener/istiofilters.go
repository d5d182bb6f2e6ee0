package listener

import (
	"slices"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"istio.io/api/envoy/extensions/stats"

	"github.com/lateen-mesh/lateen/internal/api/cel"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
	"github.com/lateen-mesh/lateen/internal/xds/proxystats"
)

// statsFilter is what Istio calls its filter that keeps the standard metrics of requests, or of
// connections.
const statsFilter = "istio.stats"

// namedMetric is a metric with its name in Prometheus.
type namedMetric struct {
	metric model.Metric
	name   string
}

// requestMetrics are those that the filter keeps of requests. Of messages of gRPC it knows where
// another filter counts them.
func (c builder) requestMetrics() []namedMetric {
	all := []namedMetric{
		{model.RequestCount, proxystats.RequestsTotal}, {model.RequestDuration, proxystats.Duration},
		{model.RequestSize, proxystats.RequestBytes}, {model.ResponseSize, proxystats.ResponseBytes},
	}
	if c.Metrics.countsMessages() {
		all = append(all, messageMetrics()...)
	}
	return all
}

func connectionMetrics() []namedMetric {
	return []namedMetric{
		{model.TCPOpened, proxystats.TCPOpened}, {model.TCPClosed, proxystats.TCPClosed},
		{model.TCPSent, proxystats.TCPSent}, {model.TCPReceived, proxystats.TCPReceived},
	}
}

// istioStats is the configuration of the filter; nil if there are no metrics. Which side reports
// follows from the direction of the listener. Where clients are not of the mesh the filter does not
// take the host of a request for a service.
func (c builder) istioStats(all []namedMetric) *stats.PluginConfig {
	if !c.Metrics.Standard || !c.Metrics.IstioFilters || !slices.ContainsFunc(all, c.Metrics.keeps) {
		return nil
	}
	config := &stats.PluginConfig{DisableHostHeaderFallback: c.ofGateway || c.reporter == proxystats.Destination}
	for _, m := range all {
		of := c.Metrics.Changed.Of(m.metric)
		if of.Same(model.ChangedMetric{}) {
			continue
		}
		config.Metrics = append(config.Metrics, istioMetric(strings.TrimPrefix(m.name, "istio_"), of))
	}
	return config
}

// istioMetric is what Telemetries say of one metric, as the filter takes it.
func istioMetric(name string, of model.ChangedMetric) *stats.MetricConfig {
	config := &stats.MetricConfig{Name: name, Drop: of.Disabled}
	if of.Disabled {
		return config
	}
	for _, tag := range of.Tags {
		if tag.Format == "" {
			config.TagsToRemove = append(config.TagsToRemove, tag.Name)
			continue
		}
		if config.Dimensions == nil {
			config.Dimensions = map[string]string{}
		}
		config.Dimensions[tag.Name] = cel.Expression(tag.Format)
	}
	return config
}

// countRequests adds the filter for requests, in front of the router.
func (c builder) countRequests(filters []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	if config := c.istioStats(c.requestMetrics()); config != nil {
		return append(filters, httpFilter(statsFilter, config))
	}
	return filters
}

// connectionFilters puts what looks at connections that are not HTTP in front of the filters that
// hand them on: first the exchange, so that policies and logs know the peer, and the count last.
// Outbound connections exchange in their cluster.
func (c builder) connectionFilters(handOn ...*listenerv3.Filter) []*listenerv3.Filter {
	if config := c.istioStats(connectionMetrics()); config != nil {
		handOn = append([]*listenerv3.Filter{networkFilter(statsFilter, config)}, handOn...)
	}
	filters := c.authFilters.tcp(handOn...)
	if c.Metrics.IstioFilters && c.ofMesh {
		filters = append([]*listenerv3.Filter{{
			Name:       pb.ExchangeFilter,
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pb.ConnectionExchange()},
		}}, filters...)
	}
	return filters
}

// exchanges reports whether a chain exchanges what peers say of themselves, as connectionFilters
// makes it.
func exchanges(chain *listenerv3.FilterChain) bool {
	return len(chain.GetFilters()) > 0 && chain.GetFilters()[0].GetName() == pb.ExchangeFilter
}

// exchangeHeaders is the filter by which proxies of Istio's build tell each other of their
// workloads, in headers of requests and responses. A caller tells no host outside of the mesh, and
// of a called workload it is for TLS of the mesh alone: in plaintext anyone may claim anything.
func (c builder) exchangeHeaders() *hcmv3.HttpFilter {
	side, headers := "downstream", &structpb.Struct{}
	if c.reporter == proxystats.Source {
		side, headers = "upstream", &structpb.Struct{Fields: map[string]*structpb.Value{
			"skip_external_clusters": structpb.NewBoolValue(true),
		}}
	}
	fields := &structpb.Struct{Fields: map[string]*structpb.Value{
		side + "_discovery":   oneMethod(&structpb.Struct{}),
		side + "_propagation": oneMethod(headers),
	}}
	return &hcmv3.HttpFilter{Name: pb.ExchangeFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{
		TypedConfig: pb.Structure("io.istio.http.peer_metadata.Config", fields),
	}}
}

// oneMethod is a list with the method of Istio's headers.
func oneMethod(config *structpb.Struct) *structpb.Value {
	method := &structpb.Struct{Fields: map[string]*structpb.Value{"istio_headers": structpb.NewStructValue(config)}}
	return structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStructValue(method)}})
}
