package cluster

import (
	"time"

	"github.com/lateen-mesh/lateen/internal/model"
)

// OutboundInput is all that one outbound cluster depends on. It is comparable: it is the memo's key.
type OutboundInput struct {
	Host       model.Host
	Port       uint16
	Subset     string
	Protocol   model.Protocol
	Resolution model.Resolution
	// External tells that the host is outside of the mesh.
	External bool
	// Policy and SubsetPolicy are those of the winning DestinationRule, canonical, with port-level settings still in them.
	Policy, SubsetPolicy *model.TrafficPolicy
	// Endpoints are those of StrictDNS and LogicalDNS clusters, of this port and subset; nil for others.
	Endpoints *model.List[model.Endpoint]
	// ConnectTimeout is the mesh's default.
	ConnectTimeout time.Duration
}

// InboundInput is the cluster of one of the workload's own ports, "inbound|<port>||".
type InboundInput struct {
	Port           uint16 // that the proxy takes
	Address        string // of the workload's process: model.OwnApp, model.OwnPod or an IP
	EndpointPort   uint16
	Protocol       model.Protocol
	ConnectTimeout time.Duration
}
