package lab

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf"
	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

func TestIstiodStandsBesideLateen(t *testing.T) {
	phase := []perf.PhaseComparison{{Name: "connect", Rows: []perf.Ratio{
		{Name: "time", Unit: "s", A: 40, B: 4}, {Name: "CPU", Unit: "s", A: 80, B: 2},
		{Name: "bytes to sidecars", Unit: "B", A: 4e9, B: 2e9}, {Name: "responses", A: 8000, B: 10_000},
		{Name: "memory", Unit: "B", A: 0, B: 1e8},
	}}}
	lateen := perf.Report{
		Machine: measure.Machine{Cores: 2, CPU: "a CPU", Memory: 24 << 30},
		Phases:  []perf.Phase{{Name: "connect", Sidecars: 2000}},
	}
	lateen.ControlPlane.Version = "v1"
	b := NewBesideIstiod(perf.Beside{B: lateen, Comparison: perf.Comparison{Phases: phase}})
	text := b.markdown()
	for _, line := range []string{
		"Lateen have served 2,000\nsidecars", "| **connect** |  |  |  |  |  |",
		"| time | 40.00 s | 4.00 s | 1/10 | - | - |", "| CPU | 80.00 s | 2.00 s | 1/40 | 40 ms | 1.0 ms |",
		"| bytes to sidecars | 4.00 GB | 2.00 GB | 1/2 | 2.0 MB | 1.0 MB |",
		"| responses | 8,000 | 10,000 | 1.25 | - | - |", "| memory | 0 kB | 100.0 MB | - | 0 kB | 50 kB |",
		"lateen v1: 2 CPUs (a CPU), 24 GiB",
	} {
		require.Contains(t, text, line)
	}
}
