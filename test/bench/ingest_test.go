package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/api/convert"
	"github.com/lateen-mesh/lateen/internal/api/model"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// BenchmarkIngest converts one object of each main kind, by a converter that knows the mesh, and
// the whole mesh anew, as after a watch was lost.
func BenchmarkIngest(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		mesh := model.DefaultMesh()
		objects := meshgen.Mesh{Services: services}.Objects()
		converter := convert.New(convert.Options{})
		for _, o := range objects {
			require.Empty(b, converter.Convert(o, mesh).Problems)
		}
		one := func(name string, make func(variant int) source.Change) {
			change(b, name, func(b *testing.B) {
				changes := make8(make)
				for i := 0; b.Loop(); i++ {
					converter.Convert(changes[i%len(changes)], mesh)
				}
			})
		}
		one("service", editService)
		one("pod", func(int) source.Change { return meshgen.Upsert(meshgen.Pod(subject, 0)) })
		one("endpointslice", editEndpoint)
		one("virtualservice", editRoutes)
		one("destinationrule", editRule)
		one("serviceentry", func(int) source.Change {
			return meshgen.Upsert(meshgen.ServiceEntry(meshgen.Number(0, meshgen.Listed)))
		})
		one("sidecar", editSidecar)
		one("authorizationpolicy", editPolicy)
		one("envoyfilter", editFilter)
		change(b, "everything", func(b *testing.B) {
			for b.Loop() {
				for _, o := range objects {
					converter.Convert(o, mesh)
				}
			}
		})
	})
}

// make8 makes eight variants of a change.
func make8(edit func(variant int) source.Change) [8]source.Change {
	var all [8]source.Change
	for i := range all {
		all[i] = edit(i)
	}
	return all
}
