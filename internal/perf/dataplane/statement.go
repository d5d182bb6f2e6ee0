package dataplane

import (
	"fmt"
	"math"
)

// Verdict is what a comparison says.
type Verdict string

// The verdicts.
const (
	Holds     Verdict = "holds"
	Fails     Verdict = "does not hold"
	Uncertain Verdict = "too noisy to say"
)

// Statement compares the sidecars with the hand-written Envoys, of the same rounds.
type Statement struct {
	// About is what is compared: "CPU per request" or "p99".
	About   string  `json:"about"`
	Verdict Verdict `json:"verdict"`
	// Ratio is that of the means: 1.02 says that sidecars take 2 % more.
	Ratio float64 `json:"ratio"`
	// Low and High are the confidence interval of 95 % of the ratio.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Limit is the ratio up to which the statement holds.
	Limit float64 `json:"limit"`
	Text  string  `json:"text"`
}

const (
	// cpuLimit is what sidecars may take more than the hand-written Envoys.
	cpuLimit = 1.05
	// widest is the widest confidence interval of a p99 that says anything.
	widest = 1.0
	// minCPU is the least CPU time in seconds, of all rounds, that the kernel's clock of 10 ms
	// measures well enough: an error of 1 %.
	minCPU = 1.0
)

// statements compares the sidecars with the hand-written Envoys round by round. There are none
// without either.
func statements(ours, theirs []Sample) []Statement {
	if len(ours) == 0 || len(theirs) == 0 {
		return nil
	}
	cpu, p99 := make([]float64, len(ours)), make([]float64, len(ours))
	measured := 0.0
	for i := range ours {
		a, b := perRequest(ours[i]), perRequest(theirs[i])
		cpu[i] = ratio(a, b)
		p99[i] = ratio(ours[i].Latency.P99.Float(), theirs[i].Latency.P99.Float())
		measured += b * float64(theirs[i].Sent)
	}
	c := within("CPU per request", cpu, cpuLimit)
	if measured < minCPU {
		c.Verdict = Uncertain
		c.Text = fmt.Sprintf("CPU per request: the hand-written Envoys took %.2f s of CPU in all, too little for a "+
			"statement; want a longer --duration", measured)
	}
	return []Statement{c, noise(p99, theirs)}
}

// perRequest returns the CPU seconds of all proxies of a path for one request.
func perRequest(s Sample) (sum float64) {
	for _, p := range s.Proxies {
		sum += p.Cores() / 1000
	}
	return sum
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// within states whether the ratio is at most the limit. It does neither if the limit lies in the
// confidence interval.
func within(about string, ratios []float64, limit float64) Statement {
	s := Statement{About: about, Limit: limit}
	s.Ratio, s.Low, s.High = interval(ratios)
	s.judge()
	s.Text = fmt.Sprintf("%s within %.0f %% of the hand-written Envoys: %s (%s)", about, 100*(limit-1), s.Verdict,
		s.span())
	return s.finite()
}

// judge sets the verdict by the interval and the limit.
func (s *Statement) judge() {
	switch {
	case s.High <= s.Limit:
		s.Verdict = Holds
	case s.Low > s.Limit:
		s.Verdict = Fails
	default: // comparisons with NaN too
		s.Verdict = Uncertain
	}
}

// noise states whether the p99 of the sidecars differs from that of the hand-written Envoys by no
// more than theirs differs from round to round. It says neither if the limit lies in the confidence
// interval, or if either interval is too wide.
func noise(ratios []float64, theirs []Sample) Statement {
	own := make([]float64, len(theirs))
	var mean float64
	for i, s := range theirs {
		own[i] = s.Latency.P99.Float()
		mean += own[i] / float64(len(theirs))
	}
	for i := range own {
		own[i] = ratio(own[i], mean)
	}
	_, low, high := interval(own)
	s := Statement{About: "p99", Limit: high}
	s.Ratio, s.Low, s.High = interval(ratios)
	s.judge()
	if !(high-low <= widest) || !(s.High-s.Low <= widest) { // NaN too
		s.Verdict = Uncertain
	}
	s.Text = fmt.Sprintf("p99 within its own noise, up to %+.0f %%: %s (%s)", 100*(high-1), s.Verdict, s.span())
	return s.finite()
}

func (s Statement) span() string {
	if math.IsNaN(s.Ratio) || math.IsInf(s.High, 0) {
		return "one round tells nothing of the noise; want --rounds 3 or more"
	}
	return fmt.Sprintf("%+.1f %%, 95 %% between %+.1f and %+.1f", 100*(s.Ratio-1), 100*(s.Low-1), 100*(s.High-1))
}

// finite replaces what JSON has no number for.
func (s Statement) finite() Statement {
	for _, f := range []*float64{&s.Ratio, &s.Low, &s.High, &s.Limit} {
		if math.IsNaN(*f) || math.IsInf(*f, 0) {
			*f = 0
		}
	}
	return s
}

// interval returns the mean of some values and its confidence interval of 95 %, by Student's t
// distribution.
func interval(values []float64) (mean, low, high float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	if n < 2 {
		return mean, math.Inf(-1), math.Inf(1)
	}
	var squares float64
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	half := student(len(values)-1) * math.Sqrt(squares/(n-1)/n)
	return mean, mean - half, mean + half
}

// student returns the quantile 0.975 of Student's t distribution.
func student(degrees int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228}
	if degrees <= len(table) {
		return table[degrees-1]
	}
	return 1.96 + 2.7/float64(degrees) // within 0.5 % of the exact quantile
}
