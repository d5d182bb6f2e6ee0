package endpoint

import "github.com/lateen-mesh/lateen/internal/model"

// Input is one endpoint as it stands in a cluster. It is comparable: it is the memo's key. What an LbEndpoint does not
// show (node, port name, labels beyond those it needs) is cleared by the caller, so that it makes no difference.
type Input struct {
	Address  string
	Port     uint16
	Health   model.Health
	Weight   uint32
	Workload string // "namespace/name", for telemetry metadata; empty if none
	TLS      bool
}

// AssignmentInput is a ClusterLoadAssignment without its endpoints.
type AssignmentInput struct {
	Cluster string
}

// GroupInput is a LocalityLbEndpoints without its endpoints. It holds nothing summed over them (PROTOCOL.md, P23).
type GroupInput struct {
	Locality model.Locality
	Priority uint32
	Weight   uint32 // 0: unset
}
