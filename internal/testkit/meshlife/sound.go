package meshlife

import (
	"slices"

	"github.com/lateen-mesh/lateen/internal/api/model"
)

// sound reports whether the conversion might give these objects.
func sound(objects []model.Object) bool {
	return distinct(objects, func(o model.Object) any {
		switch o := o.(type) {
		case *model.Service:
			return o.Host
		case *model.KeySet:
			return o.URI
		}
		return o
	}) && !slices.ContainsFunc(objects, func(o model.Object) bool { return !soundAlone(o) })
}

func soundAlone(o model.Object) bool {
	switch o := o.(type) {
	case *model.Service:
		takesAddress := len(o.Addresses) == 0 && o.Resolution != model.Passthrough
		return (takesAddress || !o.AutoAddress) && distinct(o.Ports, func(p model.ServicePort) any {
			return p.Port
		}) && distinct(o.Ports, func(p model.ServicePort) any { return p.Name })
	case *model.Gateway:
		return soundServers(o.Servers)
	case *model.VirtualService:
		if o.Owner != "" && (len(o.Hosts) != 1 || o.Name != ruleName(o.Meta, o.Hosts[0])) {
			return false
		}
		both := func(d *model.Destination) bool { return d.Port != 0 && d.PortName != "" }
		return distinct(o.Hosts, func(h model.Host) any { return h }) && !slices.ContainsFunc(destinations(o), both)
	case *model.RootRoutes:
		return soundAlone(&o.VirtualService) && soundDelegations(o)
	case *model.DelegateRoutes:
		return soundDelegate(o)
	case *model.AuthorizationPolicy:
		return distinct(o.Gateways, func(name string) any { return name })
	case *model.RequestAuthentication:
		return distinct(o.Gateways, func(name string) any { return name })
	case *model.EnvoyFilter:
		return distinct(o.Gateways, func(name string) any { return name })
	case *model.Telemetry:
		return distinct(o.Gateways, func(name string) any { return name })
	case *model.EndpointSlice:
		return distinct(o.Hosts, func(h model.SliceHost) any {
			return h.Address
		}) && distinct(o.Ports, func(p model.SlicePort) any { return p.Name })
	}
	return true
}

func soundServers(servers []model.GatewayServer) bool {
	for i, s := range servers {
		passes := s.TLS != nil && !s.TLS.Mode.Terminates()
		if passes != (s.Protocol == model.TLS) || s.TLS != nil &&
			(passes || s.TLS.Mode == model.ServerIstioMutual || len(s.TLS.Files) > 0) != (len(s.TLS.Names()) == 0) {
			return false
		}
		for _, o := range servers[:i] {
			if s.TLS != nil && o.TLS != nil && s.Port == o.Port && s.PortName == o.PortName {
				return false
			}
		}
	}
	return true
}

func distinct[T any](list []T, key func(T) any) bool {
	seen := map[any]bool{}
	for _, item := range list {
		if k := key(item); seen[k] {
			return false
		}
		seen[key(item)] = true
	}
	return true
}
