package validate

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// spanReceivers is the aspect of the services that spans of a Telemetry, or of the mesh
// configuration, go to.
const spanReceivers = "span receivers"

// checkReceivers reports Telemetries, and a mesh configuration, whose spans would go to no service.
// Proxies do not trace then, because Envoy refuses a listener whose tracer has no cluster. The cost
// follows the delta, and the Telemetries that trace to hosts of changed services.
func (c *Checker) checkReceivers(snap *state.Snapshot, d *state.Delta) {
	c.checkMeshReceiver(snap, d)
	dirty := map[*model.Telemetry]bool{}
	for _, p := range d.Telemetries {
		if p.New == nil {
			c.store.setRelation(relation{p.Old.Key(), spanReceivers}, nil)
			continue
		}
		dirty[p.New] = true
	}
	for _, p := range d.Services {
		for _, s := range []*model.Service{p.Old, p.New} {
			if s == nil {
				continue
			}
			for t := range snap.TelemetriesTracingTo(s.Host) {
				dirty[t] = true
			}
		}
	}
	for t := range dirty {
		c.store.setRelation(relation{t.Key(), spanReceivers}, missingReceivers(snap, t))
	}
}

// missingReceivers returns a problem for each provider whose receiver no service is.
func missingReceivers(snap *state.Snapshot, t *model.Telemetry) []source.Problem {
	var problems []source.Problem
	for i, r := range t.Tracing {
		if r.Tracer == nil {
			continue
		}
		path := fmt.Sprintf("spec.tracing[%d].providers[0].name", i)
		at := tracerPlace{path, r.Tracer.Name, "calls are not traced", providerAddress}
		problems = append(problems, missingReceiver(snap, r.Tracer, at)...)
	}
	return problems
}

// checkMeshReceiver checks how calls are traced while no Telemetry says so.
func (c *Checker) checkMeshReceiver(snap *state.Snapshot, d *state.Delta) {
	tracer := snap.Mesh.Tracing.Tracer
	concerns := func(s *model.Service) bool { return s != nil && tracer != nil && s.Host == tracer.Host }
	if !d.Mesh && !slices.ContainsFunc(d.Services, func(p state.Pair[model.Service]) bool {
		return concerns(p.Old) || concerns(p.New)
	}) {
		return
	}
	var missing []source.Problem
	if tracer != nil {
		missing = missingReceiver(snap, tracer, meshPlace(tracer, snap.Mesh.LegacyTracer))
	}
	c.store.setRelation(relation{c.Mesh, spanReceivers}, missing)
}

// tracerPlace is where a tracer is named.
type tracerPlace struct {
	path, value string
	loses       string // what happens without a receiver
	address     string // the field that says where spans go
}

// meshPlace returns where the mesh configuration names its tracer: as a provider, or by an address
// in defaultConfig.
func meshPlace(t *model.Tracer, legacy bool) tracerPlace {
	const loses = "calls that no Telemetry traces elsewhere are not traced"
	const of = "data.mesh."
	if !legacy {
		return tracerPlace{of + "defaultProviders.tracing[0]", t.Name, loses, providerAddress}
	}
	field := "defaultConfig.tracing.zipkin.address"
	if t.Kind == model.TraceDatadog {
		field = "defaultConfig.tracing.datadog.address"
	}
	return tracerPlace{of + field, net.JoinHostPort(string(t.Host), strconv.Itoa(int(t.Port))), loses, field}
}

const providerAddress = "the provider of extensionProviders"

// missingReceiver returns a problem if no service takes the spans that go to a tracer.
func missingReceiver(snap *state.Snapshot, t *model.Tracer, at tracerPlace) []source.Problem {
	p := source.Problem{Severity: source.Warning, Path: at.path, Value: at.value}
	switch known, takes := receives(snap, t); {
	case takes:
		return nil
	case known:
		p.Message = fmt.Sprintf("%s has no TCP port %d; %s", t.Host, t.Port, at.loses)
		p.Want = "the port of the receiver, in " + at.address
	default:
		p.Message = fmt.Sprintf("no Service or ServiceEntry has the host %s that spans go to; %s", t.Host, at.loses)
		p.Want = "a Service or ServiceEntry for the receiver, or its host in " + at.address
	}
	return []source.Problem{p}
}

// receives reports whether any service has the host of a tracer, and whether one of these has its
// port.
func receives(snap *state.Snapshot, t *model.Tracer) (known, takes bool) {
	for s := range snap.Claims(t.Host) {
		known = true
		if s.TakesTCP(t.Port) {
			return true, true
		}
	}
	return known, false
}
