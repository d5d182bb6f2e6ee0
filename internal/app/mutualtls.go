package app

import (
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/observe/debug"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// mutualTLS returns how a proxy speaks mutual TLS of the mesh.
func (p *Pipeline) mutualTLS(n *serve.Node) debug.MutualTLS {
	switch w := p.snapshot.Load(); {
	case !n.Metadata.HasAgent(), w == nil:
		return debug.NoMutualTLS
	case n.Type != serve.Sidecar:
		return debug.CallsInMutualTLS
	default:
		m := w.MTLSFor(n.Namespace, model.LabelsOf(n.Metadata.Labels))
		mode, _ := m.Mode(0)
		if m.Own == nil {
			return mutualTLSNames[mode]
		}
		for _, port := range m.Own.Ports {
			if of, _ := m.Mode(port.Port); of != mode {
				return debug.MixedMutualTLS
			}
		}
		return mutualTLSNames[mode]
	}
}

var mutualTLSNames = map[model.MTLSMode]debug.MutualTLS{
	model.MTLSPermissive: debug.PermissiveMutualTLS,
	model.MTLSStrict:     debug.StrictMutualTLS,
	model.MTLSDisable:    debug.DisabledMutualTLS,
}
