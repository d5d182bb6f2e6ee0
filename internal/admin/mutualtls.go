package admin

import (
	"github.com/lateen-mesh/lateen/internal/admin/page"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/xds/serve"
)

// mutualTLS returns how a proxy speaks mutual TLS of the mesh.
func (m *Mesh) mutualTLS(n *serve.Node) page.MutualTLS {
	switch w := m.Snapshot(); {
	case !n.Metadata.HasAgent(), w == nil:
		return page.NoMutualTLS
	case n.Type != serve.Sidecar:
		return page.CallsInMutualTLS
	default:
		at := w.MTLSFor(n.Namespace, model.LabelsOf(n.Metadata.Labels))
		mode, _ := at.Mode(0)
		if at.Own == nil {
			return mutualTLSNames[mode]
		}
		for _, port := range at.Own.Ports {
			if of, _ := at.Mode(port.Port); of != mode {
				return page.MixedMutualTLS
			}
		}
		return mutualTLSNames[mode]
	}
}

var mutualTLSNames = map[model.MTLSMode]page.MutualTLS{
	model.MTLSPermissive: page.PermissiveMutualTLS,
	model.MTLSStrict:     page.StrictMutualTLS,
	model.MTLSDisable:    page.DisabledMutualTLS,
}
