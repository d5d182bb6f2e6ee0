package bench

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// id names one benchmark: what is measured, in a mesh of how many services.
type id struct {
	stage, change string
	services      int
}

func (i id) String() string {
	return fmt.Sprintf("Benchmark%s/services=%d/change=%s", i.stage, i.services, i.change)
}

// results are benchmark results in Go's format (golang.org/design/14313-benchmark-format).
type results struct {
	facts  map[string]string // configuration lines: "cores", "go", …
	values map[id]map[string][]float64
}

func readResults(r io.Reader) (*results, error) {
	rs := &results{facts: map[string]string{}, values: map[id]map[string][]float64{}}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "Benchmark") {
			if err := rs.add(line); err != nil {
				return nil, err
			}
			continue
		}
		if key, value, ok := strings.Cut(line, ": "); ok && !strings.Contains(key, " ") {
			rs.facts[key] = strings.TrimSpace(value)
		}
	}
	return rs, lines.Err()
}

// add reads one line: a name, the number of iterations, and values with their units.
func (rs *results) add(line string) error {
	fields := strings.Fields(line)
	if len(fields) < 4 || len(fields)%2 != 0 {
		return fmt.Errorf("%q: want a name, a number of iterations, and values with units", line)
	}
	name, err := readID(fields[0])
	if err != nil {
		return err
	}
	if rs.values[name] == nil {
		rs.values[name] = map[string][]float64{}
	}
	for i := 2; i < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		rs.values[name][fields[i+1]] = append(rs.values[name][fields[i+1]], v)
	}
	return nil
}

// readID reads "BenchmarkApply/services=100/change=endpoint", with or without the "-2" of two cores
// behind it.
func readID(name string) (id, error) {
	parts := strings.Split(strings.TrimPrefix(name, "Benchmark"), "/")
	if len(parts) == 3 {
		n, err := strconv.Atoi(strings.TrimPrefix(parts[1], "services="))
		change, _, _ := strings.Cut(parts[2], "-")
		change, ok := strings.CutPrefix(change, "change=")
		if err == nil && ok {
			return id{stage: parts[0], services: n, change: change}, nil
		}
	}
	return id{}, fmt.Errorf("%q: want BenchmarkStage/services=N/change=what, without dashes", name)
}

// median is that of all runs of a benchmark; ok when there is one.
func (rs *results) median(of id, unit string) (value float64, ok bool) {
	all := slices.Sorted(slices.Values(rs.values[of][unit]))
	if len(all) == 0 {
		return 0, false
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2, true
}

// runs is how often each benchmark was run, at least.
func (rs *results) runs() int {
	least := 0
	for _, units := range rs.values {
		if n := len(units["ns/op"]); least == 0 || n < least {
			least = n
		}
	}
	return least
}
