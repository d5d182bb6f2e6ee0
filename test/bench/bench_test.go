package bench

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/testkit/golden"
)

const (
	baselineFile = "baseline.txt"
	documentFile = "../../docs/performance.md"
	begin        = "<!-- Written from test/bench/baseline.txt by make bench-baseline. -->\n"
	end          = "<!-- End of what is written. -->\n"
)

func readBaseline(t *testing.T) *results {
	f, err := os.Open(baselineFile)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	rs, err := readResults(f)
	require.NoError(t, err)
	return rs
}

func TestPerformancePageShowsTheBaseline(t *testing.T) {
	want, err := document(readBaseline(t))
	require.NoError(t, err)
	text, err := os.ReadFile(documentFile)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok, "%s has no line %q", documentFile, begin)
	got, after, ok := strings.Cut(rest, end)
	require.True(t, ok, "%s has no line %q", documentFile, end)
	if golden.Updating() {
		require.NoError(t, os.WriteFile(documentFile, []byte(before+begin+want+end+after), 0o644))
		return
	}
	require.Empty(t, cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")),
		"docs/performance.md is not what the baseline says: go test ./test/bench -run TestPerformancePage -update")
}

// TestEachBenchmarkWorks runs each once in the smallest mesh, and requires that catalogue and
// baseline know just these.
func TestEachBenchmarkWorks(t *testing.T) {
	out, err := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=./services=100$", "-test.benchtime=1x",
		"-test.timeout=10m").CombinedOutput()
	require.NoError(t, err, string(out))
	rs, err := readResults(bytes.NewReader(out))
	require.NoError(t, err, string(out))
	ran := map[id]bool{}
	for of := range rs.values {
		ran[of] = true
	}
	require.Equal(t, names(ran), names(listed(catalogue, sizes[:1])),
		"the catalogue lists just the benchmarks that there are")
	require.Equal(t, names(listed(catalogue, sizes)), names(readBaseline(t).values),
		"the baseline has just the benchmarks of the catalogue: make bench-baseline")
}

// listed are the benchmarks of rows in meshes of some sizes.
func listed(rows []row, sizes []int) map[id]bool {
	all := map[id]bool{}
	for _, r := range rows {
		for _, n := range sizes {
			all[id{stage: r.stage, change: r.change, services: n}] = true
		}
	}
	return all
}

func names[V any](of map[id]V) []string {
	var all []string
	for i := range of {
		all = append(all, i.String())
	}
	slices.Sort(all)
	return all
}

func TestResultsAreRead(t *testing.T) {
	rs, err := readResults(strings.NewReader(`cores: 2
goos: linux
BenchmarkApply/services=100/change=endpoint-2 	 10	 4000 ns/op	 12 B/op	 3 allocs/op
BenchmarkApply/services=100/change=endpoint 	 10	 2000 ns/op	 14 B/op	 3 allocs/op
BenchmarkApply/services=1000/change=endpoint-2 	 10	 2.5 ns/op
PASS
ok  	github.com/lateen-mesh/lateen/test/bench	1.1s
`))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"cores": "2", "goos": "linux"}, rs.facts)
	require.Equal(t, 1, rs.runs())
	small := id{stage: "Apply", change: "endpoint", services: 100}
	median, ok := rs.median(small, "ns/op")
	require.True(t, ok)
	require.InDelta(t, 3000, median, 0)
	_, ok = rs.median(small, "misses/op")
	require.False(t, ok)
	for _, bad := range []string{
		"BenchmarkApply 1 2 ns/op",
		"BenchmarkApply/services=x/change=y 1 2 ns/op",
		"BenchmarkApply/services=1/change=y 1 2",
	} {
		_, err := readResults(strings.NewReader(bad))
		require.ErrorContains(t, err, "want")
	}
}

func TestAmountsAreReadable(t *testing.T) {
	require.Equal(t, []string{"0 ns", "95 ns", "1.0 µs", "9.9 µs", "10 µs", "999 µs", "1.0 ms", "2.5 s", "1200 s"},
		[]string{
			duration(0), duration(95.4), duration(1000), duration(9949), duration(9951), duration(999_400),
			duration(999_600), duration(2.5e9), duration(1.2e12),
		})
	require.Equal(t, []string{"0", "7", "1.5k", "830k", "1.6M"},
		[]string{count(0), count(7), count(1500), count(830_000), count(1_600_000)})
	require.Equal(t, []string{"0 B", "1.2 kB", "37 MB"}, []string{size(0), size(1216), size(37_000_000)})
}
