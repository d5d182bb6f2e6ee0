package model

import (
	"strconv"
	"strings"
)

// StatPattern says by which name a cluster stands in Envoy's statistics, with the placeholders of
// MeshConfig.outboundClusterStatName. The empty one leaves the cluster's own name.
type StatPattern string

// StatPlaceholders are what a StatPattern may name.
const StatPlaceholders = "%SERVICE% %SERVICE_NAME% %SERVICE_FQDN% %SERVICE_PORT% %SERVICE_PORT_NAME% " +
	"%TARGET_PORT% %SUBSET_NAME%"

// StatPort is the port of a service that a cluster is for.
type StatPort struct {
	Host            Host
	Name, Namespace string // of the service in Istio's telemetry (Service.TelemetryName)
	Port            uint16
	PortName        string
	Subset          string // of the service; empty for all
	Target          uint16 // of the workload, for the cluster of its own port; else 0, as in Istio
}

// NameOf returns the name of a port's cluster; empty for the cluster's own.
func (p StatPattern) NameOf(of StatPort) string {
	if p == "" {
		return ""
	}
	host := string(of.Host)
	short := host
	if of.Name != host { // a Service of Kubernetes
		short = of.Name + "." + of.Namespace
	}
	number := func(n uint16) string { return strconv.Itoa(int(n)) }
	return strings.NewReplacer(
		"%SERVICE%", short, "%SERVICE_NAME%", of.Name, "%SERVICE_FQDN%", host,
		"%SERVICE_PORT%", number(of.Port), "%SERVICE_PORT_NAME%", of.PortName,
		"%TARGET_PORT%", number(of.Target), "%SUBSET_NAME%", of.Subset,
	).Replace(string(p))
}
