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
		where := source.Problem{Path: fmt.Sprintf("spec.tracing[%d].providers[0].name", i), Value: r.Tracer.Name}
		problems = append(problems, missingReceiver(snap, r.Tracer, where)...)
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
	switch {
	case tracer == nil:
	case snap.Mesh.LegacyTracer:
		address := net.JoinHostPort(string(tracer.Host), strconv.Itoa(int(tracer.Port)))
		missing = missingReceiver(snap, tracer, source.Problem{
			Path: meshPath + "defaultConfig.tracing", Value: address,
		})
	default:
		missing = missingReceiver(snap, tracer, source.Problem{
			Path: meshPath + "defaultProviders.tracing[0]", Value: tracer.Name,
		})
	}
	c.store.setRelation(relation{c.Mesh, spanReceivers}, missing)
}

// meshPath begins the paths of fields of the mesh configuration in its ConfigMap.
const meshPath = "data.mesh."

// missingReceiver returns a problem at a place if no service takes the spans that go to a tracer.
func missingReceiver(snap *state.Snapshot, tracer *model.Tracer, where source.Problem) []source.Problem {
	where.Severity = source.Warning
	switch known, takes := receives(snap, tracer); {
	case takes:
		return nil
	case known:
		where.Message = fmt.Sprintf("%s has no TCP port %d; calls are not traced", tracer.Host, tracer.Port)
		where.Want = "the port of the receiver, in the provider of extensionProviders"
	default:
		where.Message = fmt.Sprintf("no Service or ServiceEntry has the host %s that spans go to; calls are not traced",
			tracer.Host)
		where.Want = "a Service or ServiceEntry for the receiver, or its host in the provider of extensionProviders"
	}
	return []source.Problem{where}
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
