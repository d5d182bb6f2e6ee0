package cluster

import (
	"strconv"

	"github.com/lateen-mesh/lateen/internal/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Names of the clusters that belong to no service.
const (
	PassthroughName = "PassthroughCluster"
	BlackHoleName   = "BlackHoleCluster"
)

// Name is the name of an outbound cluster, "outbound|<port>|<subset>|<host>". The ClusterLoadAssignment has the same one.
func Name(port uint16, subset string, host model.Host) string {
	return pb.OutboundCluster(host, port, subset)
}

// InboundName is the name of the cluster of one of the workload's own ports, "inbound|<port>||".
func InboundName(port uint16) string { return "inbound|" + strconv.Itoa(int(port)) + "||" }

// statName marks where the name ends in a statistic, as Istio does: names have dots, and a bootstrap's stats_tags tell
// name and statistic apart by the semicolon.
func statName(name string) string { return name + ";" }
