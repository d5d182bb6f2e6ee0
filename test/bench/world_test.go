package bench

import (
	"testing"

	"github.com/lateen-mesh/lateen/internal/mesh/state"
	"github.com/lateen-mesh/lateen/internal/source"
	"github.com/lateen-mesh/lateen/internal/testkit/meshgen"
)

// BenchmarkApply makes the next generation of the world for one change, and the first from nothing.
func BenchmarkApply(b *testing.B) {
	atEachSize(b, func(b *testing.B, services int) {
		u, _ := newUpstream(b, services)
		restore := func(changes ...source.Change) { u.next(changes...) }
		measure := func(b *testing.B, e editOf) {
			updates := [2][]state.Update{u.convert(e.edit(u.variant())), u.convert(e.edit(u.variant()))}
			for i := 0; b.Loop(); i++ {
				u.writer.Apply(updates[i%2])
			}
		}
		eachEdit(b, edits, restore, measure)
		same := u.convert(meshgen.Mesh{Services: services}.Objects()...)
		change(b, "relist", func(b *testing.B) {
			u.writer.Apply(same)
			for b.Loop() {
				if _, d := u.writer.Apply(same); !d.IsEmpty() {
					b.Fatal("equal content made a generation")
				}
			}
		})
		change(b, "everything", func(b *testing.B) {
			for b.Loop() {
				state.NewWriter().Apply(same)
			}
		})
		u.next(meshgen.Security(policed)...)
		eachEdit(b, policyEdits, restore, measure)
		u.next(meshgen.GatewayAPI(subject)...)
		eachEdit(b, attachEdits, restore, measure)
	})
}
