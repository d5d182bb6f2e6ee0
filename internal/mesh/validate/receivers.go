package validate

import (
	"fmt"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// spanReceivers is the aspect of the services that spans of a Telemetry go to.
const spanReceivers = "span receivers"

// checkReceivers reports Telemetries whose spans would go to no service. Proxies do not trace then,
// because Envoy refuses a listener whose tracer has no cluster. The cost follows the delta, and the
// Telemetries that trace to hosts of changed services.
func (c *Checker) checkReceivers(snap *state.Snapshot, d *state.Delta) {
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
		p := source.Problem{
			Severity: source.Warning, Path: fmt.Sprintf("spec.tracing[%d].providers[0].name", i), Value: r.Tracer.Name,
		}
		switch known, takes := receives(snap, r.Tracer); {
		case takes:
			continue
		case known:
			p.Message = fmt.Sprintf("%s has no TCP port %d; calls are not traced", r.Tracer.Host, r.Tracer.Port)
			p.Want = "the port of the receiver, in the provider of extensionProviders"
		default:
			p.Message = fmt.Sprintf("no Service or ServiceEntry has the host %s that spans go to; calls are not traced",
				r.Tracer.Host)
			p.Want = "a Service or ServiceEntry for the receiver, or its host in the provider of extensionProviders"
		}
		problems = append(problems, p)
	}
	return problems
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
