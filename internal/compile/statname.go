package compile

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/mesh/scope"
)

// outboundStat returns by which name the cluster of a service's port, or of a subset of it, stands
// in statistics; empty for its own.
func outboundStat(s *scope.Scope, svc *model.Service, p model.ServicePort, subset string) string {
	pattern := s.Mesh().OutboundStatName
	if pattern == "" {
		return ""
	}
	return pattern.NameOf(model.StatPort{
		Host: svc.Host, Name: svc.TelemetryName(), Namespace: svc.Namespace,
		Port: p.Port, PortName: p.Name, Subset: subset,
	})
}

// inboundStat returns by which name the cluster of one of the workload's own ports stands in
// statistics: that of the first service that leads to it.
func inboundStat(s *scope.Scope, port uint16) string {
	if first := firstServiceAt(s, port); first != nil {
		return first.Stat
	}
	return ""
}

// ingressStat is inboundStat for a port of the Sidecar. Where no service leads to it the Sidecar
// stands for one, as in Istio.
func ingressStat(s *scope.Scope, sidecar *model.Sidecar, in *model.IngressListener) string {
	pattern := s.Mesh().InboundStatName
	if pattern == "" {
		return ""
	}
	host := sidecar.Name + "." + sidecar.Namespace
	of := model.StatPort{Host: model.Host(host), Name: host, Port: in.Port, PortName: in.Name, Target: in.Port}
	if first := firstServiceAt(s, in.Port); first != nil {
		of.Host, of.Name, of.Namespace = first.Host, first.Name, s.Namespace()
	}
	return pattern.NameOf(of)
}

// firstServiceAt returns the first service that leads to one of the workload's own ports, nil for
// none or while the mesh does not name these ports in statistics.
func firstServiceAt(s *scope.Scope, port uint16) *scope.PortService {
	if s.Mesh().InboundStatName == "" {
		return nil
	}
	for svc := range s.PortServices().All() {
		if svc.Port == port {
			return &svc
		}
	}
	return nil
}
