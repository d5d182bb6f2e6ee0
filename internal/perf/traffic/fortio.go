package traffic

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"fortio.org/fortio/periodic"
	"fortio.org/fortio/stats"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

// resolution is the width of the smallest buckets of Fortio's histogram, in seconds.
const resolution = 1e-5

// Percentiles are those that reports tell.
func Percentiles() []float64 { return []float64{50, 75, 90, 99, 99.9} }

// FortioResult is a result in the JSON of Fortio, as its report browser reads it. The percentiles
// are those of the exact times, not of the histogram's buckets.
type FortioResult struct {
	periodic.RunnerResults
	RetCodes    map[string]int
	Destination string
	URL         string `json:",omitempty"`
	Payload     int
}

// Fortio returns the result in Fortio's format.
func (r Result) Fortio(version string) FortioResult {
	histogram := stats.NewHistogram(0, resolution)
	for _, d := range r.Latency {
		histogram.Record(d.Seconds())
	}
	data := histogram.Export()
	exact := measure.NewDistribution(r.Latency...)
	for _, p := range Percentiles() {
		data.Percentiles = append(data.Percentiles, stats.Percentile{
			Percentile: p, Value: exact.Quantile(p / 100).Seconds(),
		})
	}
	kind, ok := r.Load.Target.Protocol.runType()
	out := FortioResult{Destination: r.Load.Target.Address, Payload: r.Load.Target.Payload, RetCodes: map[string]int{}}
	out.RunnerResults = periodic.RunnerResults{
		RunType: kind, Labels: r.Load.Label, StartTime: r.Start, Version: version,
		RequestedQPS: "max", RequestedDuration: r.Load.Duration.String(),
		ActualQPS: r.QPS(), ActualDuration: r.Elapsed, NumThreads: r.Load.Connections,
		DurationHistogram: data, ErrorsDurationHistogram: stats.NewHistogram(0, resolution).Export(), Uniform: true,
	}
	if r.Load.QPS > 0 {
		out.RequestedQPS = strconv.FormatFloat(r.Load.QPS, 'f', -1, 64)
	}
	if kind == "HTTP" {
		out.URL = "http://" + r.Load.Target.Address + "/echo"
	}
	if r.Answered > 0 {
		out.RetCodes[ok] = r.Answered
	}
	for reason, n := range r.Errors {
		out.RetCodes[reason] = n
	}
	return out
}

// runType returns Fortio's name of a run, and the code of its answers that are good.
func (p Protocol) runType() (name, good string) {
	switch p {
	case GRPC:
		return "GRPC Ping", "SERVING"
	case TCP:
		return "TCP", "OK"
	default:
		return "HTTP", "200"
	}
}

// Save writes the result into a directory of Fortio's report browser, under a name that sorts by
// time, and returns the file's path.
func (f FortioResult) Save(dir string) (string, error) {
	o := periodic.RunnerOptions{Labels: f.Labels}
	o.GenID()
	f.ID = f.StartTime.UTC().Format("2006-01-02-150405.000") + o.ID[len(time.DateOnly+"-150405"):]
	encoded, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return "", fmt.Errorf("result %s: %w", f.Labels, err)
	}
	path := filepath.Join(dir, f.ID+".json")
	return path, os.WriteFile(path, encoded, 0o644)
}
