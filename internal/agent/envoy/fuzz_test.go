package envoy

import "testing"

func FuzzConnections(f *testing.F) {
	f.Add("listener.0.0.0.0_15006.downstream_cx_active: 3\n", uint16(15021))
	f.Fuzz(func(t *testing.T, stats string, own uint16) {
		if n := connections(stats, []uint16{own}); n < 0 {
			t.Fatal(n)
		}
	})
}
