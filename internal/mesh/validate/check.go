package validate

import (
	"iter"
	"maps"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Checker checks objects against each other, generation by generation, and sets its findings in a
// ProblemStore. One goroutine uses it.
type Checker struct {
	store *ProblemStore

	// unresolved are the VirtualServices with a destination that does not exist, by namespace: the
	// hosts that their problem suggests depend on the services of the namespace.
	unresolved map[string]map[source.Key]bool
	// placements are where the workloads of Gateways run.
	placements placements
	Options
}

// Options say how the mesh is run.
type Options struct {
	// Pods says whether the source delivers the Pods of the mesh, so that a selector which fits
	// none is a mistake.
	Pods bool
	// DeploysGateways says whether Gateways of the Gateway API are deployed, so that one without a
	// Service gets one.
	DeploysGateways bool
	// OwnGateways says that Pods serve Gateways of Istio's API in their own namespace alone.
	OwnGateways bool
	// Mesh is the object with the mesh configuration.
	Mesh source.Key
}

// NewChecker makes a Checker for a mesh that is empty yet.
func NewChecker(store *ProblemStore, o Options) *Checker {
	return &Checker{store: store, unresolved: map[string]map[source.Key]bool{}, placements: placements{}, Options: o}
}

// Fork returns a Checker that goes on for itself, with another store.
func (c *Checker) Fork(store *ProblemStore) *Checker {
	f := NewChecker(store, c.Options)
	for namespace, services := range c.unresolved {
		f.unresolved[namespace] = maps.Clone(services)
	}
	f.placements = c.placements.clone()
	return f
}

// Check repeats the checks that the delta may have changed. The cost follows the delta, not the
// mesh. The findings are published with the next ProblemStore.Publish.
func (c *Checker) Check(snap *state.Snapshot, d *state.Delta) {
	c.checkDelegations(d)
	c.checkRelations(snap, d)
	c.checkServices(snap, d)
	c.checkShadowed(snap, d)
	c.checkShortNames(snap, d)
	c.checkForeignHosts(snap, d)
	c.checkCredentials(snap, d)
	c.checkKeySets(snap, d)
	c.checkAttachments(d)
	c.checkContested(snap, d)
	c.checkTargets(snap, d)
	c.checkReceivers(snap, d)
	c.checkNamedWorkloads(snap, d)
}

// winner is the first service that claims a host, nil if none does.
func winner(claims iter.Seq[*model.Service]) *model.Service {
	for s := range claims {
		return s
	}
	return nil
}
