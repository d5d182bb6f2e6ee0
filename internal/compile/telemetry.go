package compile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/translate/listener"
	"github.com/lateen-mesh/lateen/internal/xds/resource"
)

// observed is what a scope says of how calls are observed, as a value that compares with ==.
type observed struct {
	telemetries any // nil or a telemetryChain
	// clients and servers are where spans of the two sides go.
	clients, servers *model.Tracer
}

// telemetryChain is a list that compares with ==: its last Telemetry, and the chain of those before
// it.
type telemetryChain struct {
	last *model.Telemetry
	rest any
}

func observedBy(s *scope.Scope) (o observed) {
	all := s.Telemetries()
	for _, t := range all {
		o.telemetries = telemetryChain{t, o.telemetries}
	}
	o.clients, o.servers = tracingOf(s, all, model.ClientMode).Tracer, tracingOf(s, all, model.ServerMode).Tracer
	return o
}

// tracingOf returns how calls on one side are traced. They are not while the proxies know no
// service where the spans should go: Envoy refuses a listener whose tracer has no cluster.
func tracingOf(s *scope.Scope, all []*model.Telemetry, side model.WorkloadMode) model.Tracing {
	tracing := model.MergedTracing(s.Stated().Over(s.Mesh()), all, side)
	if t := tracing.Tracer; t != nil {
		if svc := s.Service(t.Host); svc == nil || !svc.TakesTCP(t.Port) {
			return model.Tracing{}
		}
	}
	return tracing
}

// commonKey is what differs between the listeners of proxies in one mesh.
type commonKey struct {
	http10, remoteAddress, metrics, istioFilters bool
	stack                                        model.Stack
	topology                                     model.GatewayTopology
	stated                                       *model.Stated
	gateway                                      bool // only where settings of connections differ by it
	observed
	side model.WorkloadMode // only where the sides may differ
}

// maxCommons is how many Commons are kept. Each edit of a Telemetry makes others.
const maxCommons = 1024

// common returns what the listeners of a class for one side of calls share.
func (b unitBuilder) common(s *scope.Scope, side model.WorkloadMode) *listener.Common {
	settings := s.Settings()
	key := commonKey{
		http10: settings.HTTP10, remoteAddress: settings.RemoteAddress,
		metrics: settings.Metrics, istioFilters: settings.IstioFilters,
		stack: settings.Stack, observed: observedBy(s), topology: topologyOf(s), stated: s.Stated(),
	}
	if key.telemetries != nil {
		key.side = side
	}
	key.gateway = s.Connections() != nil && s.Type() == scope.Router
	p := b.meshPartsOf(s.Mesh())
	common := p.common[key]
	if common == nil {
		if len(p.common) >= maxCommons {
			clear(p.common)
		}
		telemetries := s.Telemetries()
		metrics := model.MergedMetrics(p.config, telemetries, side)
		common = p.pool.Canonical(&listener.Common{
			AccessLogs:       model.MergedLogs(p.config, telemetries, side),
			Tracing:          tracingOf(s, telemetries, side),
			Metrics:          metricsOf(settings, metrics),
			IdleTimeout:      p.config.IdleTimeout,
			DetectionTimeout: p.config.DetectionTimeout,
			HTTP10:           settings.HTTP10,
			RemoteAddress:    settings.RemoteAddress,
			Sessions:         p.config.Sessions,
			Stack:            settings.Stack,
			Topology:         key.topology,
			Headers:          s.Headers(),
			Connections:      s.Connections().At(key.gateway),
			NoListenerLog:    p.config.NoListenerLog,
			MeshTLS:          p.config.MeshTLS,
			TLSDefaults:      p.config.TLSDefaults,
			Paths:            p.config.PathNormalization,
			TrustDomains:     trustDomains(p.config),
		})
		p.common[key] = common
	}
	return common
}

// reportTags reports metrics with too many tags, where several Telemetries of the class have them
// together. What one has alone is told when it is read.
func reportTags(s *scope.Scope, report func(source.Problem)) {
	type metricOf struct {
		by     *model.Telemetry
		metric model.Metric
	}
	told := map[metricOf]bool{}
	for _, side := range []model.WorkloadMode{model.ClientMode, model.ServerMode} {
		for _, d := range model.MergedMetrics(s.Mesh(), s.Telemetries(), side).Dropped {
			of := metricOf{d.By, d.Metric}
			if told[of] {
				continue
			}
			told[of] = true // what follows of the same Telemetry and metric has no effect with it
			if slices.Contains(model.MergedMetrics(s.Mesh(), []*model.Telemetry{d.By}, side).Dropped, d) {
				continue
			}
			report(problemOf(&d.By.Meta, source.Problem{
				Severity: source.Error, Path: "spec.metrics", Value: d.Name,
				Message: fmt.Sprintf("is one tag too many of %s, with those of other Telemetries for the same "+
					"workloads; it and those behind it have no effect", d.Metric),
				Want: fmt.Sprintf("at most %d tags of a metric", model.MaxMetricTags),
			}))
		}
	}
}

// metricsOf returns the metrics of proxies that somebody makes: what reads their statistics, or
// their own filters.
func metricsOf(settings scope.Settings, of model.MetricsTelemetry) listener.Metrics {
	return listener.Metrics{
		Standard:     of.Prometheus && (settings.Metrics || settings.IstioFilters),
		IstioFilters: settings.IstioFilters,
		Changed:      of.Changed,
	}
}

// topologyOf returns what stands in front of a gateway; of any other proxy nothing.
func topologyOf(s *scope.Scope) model.GatewayTopology {
	if s.Type() != scope.Router {
		return model.GatewayTopology{}
	}
	if own, stated := s.Settings().Topology.Topology(); stated {
		return own
	}
	return s.Mesh().GatewayTopology
}

// touchesReceivers reports whether the delta may change how the calls of some class are observed:
// by a Telemetry, or by the service that spans go to.
func (m *impact) touchesReceivers() bool {
	if len(m.delta.Telemetries) > 0 || len(m.delta.Gateways) > 0 { // a Gateway's routes let its class see the service
		return true
	}
	if m.delta.To.HasTelemetries() {
		for host := range m.hosts {
			for range m.delta.To.TelemetriesTracingTo(host) {
				return true
			}
		}
	}
	tracer := m.delta.To.Mesh.Tracing.Tracer
	return tracer != nil && m.hosts.has(tracer.Host)
}

// observing adds all listeners of a class to the impact if the calls of the class are observed
// otherwise than before: all say where calls are logged, and how they are traced. The listeners are
// those that the class has. What comes or goes in the same step is in the impact anyway.
func (m *impact) observing(has resource.State, from, to *scope.Scope) *impact {
	if observedBy(from) == observedBy(to) {
		return m
	}
	of := m.clone()
	of.own, of.observes, of.steps = true, true, nil
	of.ownBy = of.observedBy(to)
	if to.Type() != scope.Sidecar {
		return of
	}
	for r := range has.Set(resource.Listener).All() {
		address, text, _ := strings.Cut(r.Name(), "_")
		number, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			continue // ownKind has it
		}
		port := uint16(number)
		if r.Name() != portListener(to, port) {
			of.vips.add(vipUnit(address, port), of.ownBy)
		} else if of.ports[port] == nil {
			of.ports[port] = causes[model.Host]{}
		}
	}
	return of
}

// observedBy returns because of what the calls of a class are observed otherwise: a Telemetry, or
// what leads to the receiver of its spans.
func (m *impact) observedBy(to *scope.Scope) cause {
	if len(m.delta.Telemetries) > 0 {
		return m.causeOf(m.delta.Telemetries[0].Either().Key())
	}
	for _, tracer := range []*model.Tracer{observedBy(to).clients, m.delta.To.Mesh.Tracing.Tracer} {
		if tracer != nil && m.hosts.has(tracer.Host) {
			return m.hosts[tracer.Host]
		}
	}
	return noObject
}
