package dataplane

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lateen-mesh/lateen/internal/perf/traffic"
)

// sample is a round of 1,000 requests with this CPU time of both proxies together and this p99.
func sample(cpu, p99 time.Duration) Sample {
	return Sample{
		Sent: 1000, Answered: 1000, Latency: Latency{P99: Seconds(p99)},
		Proxies: []Proxy{{CPU: Seconds(cpu / 2), Requests: 1000}, {CPU: Seconds(cpu / 2), Requests: 1000}},
	}
}

// verdicts are those of CPU and p99 of rounds with these CPU times (in milliseconds) and p99s (in
// microseconds).
func verdicts(cpu, theirCPU, p99, theirP99 []int) []Verdict {
	var ours, theirs []Sample
	for i := range cpu {
		ours = append(ours, sample(time.Duration(cpu[i])*time.Millisecond, time.Duration(p99[i])*time.Microsecond))
		theirs = append(theirs, sample(time.Duration(theirCPU[i])*time.Millisecond,
			time.Duration(theirP99[i])*time.Microsecond))
	}
	var all []Verdict
	for _, s := range statements(ours, theirs) {
		all = append(all, s.Verdict)
	}
	return all
}

func TestStatementsNeedEvidence(t *testing.T) {
	steady, p99 := []int{1000, 1000, 1001}, []int{500, 510, 505}
	unsteady := []int{900, 1400, 1000}
	for name, c := range map[string]struct {
		cpu, theirCPU, p99, theirP99 []int
		want                         []Verdict
	}{
		"equal":              {steady, steady, p99, p99, []Verdict{Holds, Holds}},
		"3 % more":           {[]int{1030, 1030, 1031}, steady, p99, p99, []Verdict{Holds, Holds}},
		"20 % more":          {[]int{1200, 1201, 1200}, steady, p99, p99, []Verdict{Fails, Holds}},
		"one round":          {[]int{1000}, []int{1000}, []int{500}, []int{500}, []Verdict{Uncertain, Uncertain}},
		"noise":              {unsteady, steady, []int{400, 2000, 500}, p99, []Verdict{Uncertain, Uncertain}},
		"too little CPU":     {[]int{10, 10, 10}, []int{10, 10, 10}, p99, p99, []Verdict{Uncertain, Holds}},
		"p99 may be beyond":  {steady, steady, []int{500, 530, 515}, p99, []Verdict{Holds, Uncertain}},
		"p99 is twice as is": {steady, steady, []int{1000, 1020, 1010}, p99, []Verdict{Holds, Fails}},
	} {
		require.Equal(t, c.want, verdicts(c.cpu, c.theirCPU, c.p99, c.theirP99), name)
	}
	require.Empty(t, statements(nil, []Sample{sample(1, 1)}), "there is nothing to compare")
}

// TestStudentIsTheQuantile compares with published tables of the t distribution.
func TestStudentIsTheQuantile(t *testing.T) {
	for degrees, want := range map[int]float64{1: 12.706, 2: 4.303, 10: 2.228, 15: 2.131, 30: 2.042, 120: 1.980} {
		require.InEpsilon(t, want, student(degrees), 0.01, degrees)
	}
	mean, low, high := interval([]float64{1, 2, 3})
	require.InDelta(t, 2, mean, 1e-9)
	require.InDelta(t, 4.303/math.Sqrt(3), high-mean, 1e-3)
	require.InDelta(t, mean-low, high-mean, 1e-9)
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	err := Options{Protocol: "udp", Paths: []string{"egress"}, QPS: []float64{-1}, Connections: []int{0}}.Validate()
	for _, part := range []string{
		`protocol "udp": want one of http, http2, grpc, tcp`, `path "egress": want one of`, "qps -1: want 0",
		"connections 0: want 1 to", "duration 0s", "rounds 0", "workers 0",
	} {
		require.ErrorContains(t, err, part)
	}
	for _, p := range Presets() {
		o := Options{Duration: time.Second, Rounds: 1}
		p.Set(&o)
		require.NoError(t, o.Validate(), p.Name)
		require.Equal(t, traffic.HTTP1, o.Protocol)
		require.True(t, o.MutualTLS)
	}
}

// TestEachKnobIsAnotherMesh: a knob that changes nothing would measure another one twice.
func TestEachKnobIsAnotherMesh(t *testing.T) {
	seen := map[string]string{}
	for _, k := range knobs() {
		if k.single {
			continue // another path through the mesh of "off"
		}
		o := Options{Protocol: traffic.HTTP1, knobs: true}
		k.set(&o)
		manifests := o.manifests()
		require.Empty(t, seen[manifests], "%s is the same mesh", k.name)
		seen[manifests] = k.name
	}
}
