package cluster

import (
	"strconv"

	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/translate/pb"
)

// Names of the clusters that belong to no service.
const (
	PassthroughName        = "PassthroughCluster"
	AnyNameName            = "AllowAnyDynamicDNSCluster" // Istio's
	InboundPassthroughName = "InboundPassthroughCluster"
	BlackHoleName          = "BlackHoleCluster"
)

// Name is the name of an outbound cluster, "outbound|<port>|<subset>|<host>". The
// ClusterLoadAssignment has the same one.
func Name(port uint16, subset string, host model.Host) string {
	return pb.OutboundCluster(host, port, subset)
}

// longestServerName is Envoy's bound of UpstreamTlsContext.sni, in bytes.
const longestServerName = 255

// ServerName is the server name by which proxies of the mesh ask each other for a destination in
// TLS, as Istio writes it: "outbound_.<port>_.<subset>_.<host>". It is empty where it would be
// longer than Envoy takes.
func ServerName(port uint16, subset string, host model.Host) string {
	name := "outbound_." + strconv.Itoa(int(port)) + "_." + subset + "_." + string(host)
	if len(name) > longestServerName {
		return ""
	}
	return name
}

// InboundName is the name of the cluster of one of the workload's own ports, "inbound|<port>||".
func InboundName(port uint16) string { return "inbound|" + strconv.Itoa(int(port)) + "||" }

// statName marks where the name ends in a statistic, as Istio does: names have dots, and a
// bootstrap's stats_tags tell name and statistic apart by the semicolon.
func statName(name string) string { return name + ";" }
