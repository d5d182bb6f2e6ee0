package validate

import (
	"iter"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
)

// Checker checks objects against each other, generation by generation, and sets what it finds in a
// ProblemStore. It is used by one goroutine.
type Checker struct {
	store *ProblemStore

	// lost are VirtualServices with a destination that does not exist, by namespace: what they are
	// told to try instead depends on the services of their namespace.
	lost map[string]map[source.Key]bool
	// ways are where the workloads of Gateways run.
	ways ways
}

// NewChecker makes a Checker for a mesh that is empty yet.
func NewChecker(store *ProblemStore) *Checker {
	return &Checker{store: store, lost: map[string]map[source.Key]bool{}, ways: ways{}}
}

// Check checks again what objects say about each other where the delta could have changed it. Its
// cost follows the delta, not the mesh. What it finds stands in the store, and is told with the
// next ProblemStore.Publish.
func (c *Checker) Check(w *state.Snapshot, d *state.Delta) {
	c.checkRelations(w, d)
	c.checkServices(w, d)
	c.checkShadowed(w, d)
	c.checkShortNames(w, d)
	c.checkCredentials(w, d)
}

// winner is the first service that claims a host, nil if none does.
func winner(claims iter.Seq[*model.Service]) *model.Service {
	for s := range claims {
		return s
	}
	return nil
}
