package endpoint

import "github.com/lateen-mesh/lateen/internal/api/model"

// Input is one endpoint as it stands in a cluster. It is comparable: it is the memo's key. What an
// LbEndpoint does not show (node, port name, labels beyond those it needs) is cleared by the
// caller, so that it makes no difference.
type Input struct {
	Address  string // an IP literal; all else is refused
	Port     uint16 // 1 to 65535; 0 is refused
	Health   model.Health
	Weight   uint32 // 0 means 1; above MaxWeight counts as MaxWeight
	Workload string // a proxystats.Workload as text, which replicas share; empty if none is known
	TLS      bool   // the workload takes mesh mTLS
	// Other is another address of the same workload, tried when the first does not answer at once;
	// empty for none.
	Other string
}

// AssignmentInput is a ClusterLoadAssignment without its endpoints.
type AssignmentInput struct {
	Cluster string
}

// GroupInput is a LocalityLbEndpoints without its endpoints. It holds nothing summed over them
// (docs/protocol.md, P23).
type GroupInput struct {
	Locality model.Locality
	Priority uint32 // 0 is the highest; above MaxPriority counts as MaxPriority
	Weight   uint32 // 0: unset
}
