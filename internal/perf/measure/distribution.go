package measure

import (
	"encoding/json"
	"math"
	"math/bits"
	"time"
)

// Distribution is a histogram of times, in a few kilobytes however many there are. Times below 256
// ns are exact, longer ones within 1/128. The zero value is empty.
type Distribution struct {
	counts []int64 // by bucket
	count  int
	max    time.Duration
}

// Each power of two is divided into so many buckets of equal width.
const (
	bucketBits = 7
	perOctave  = 1 << bucketBits
)

func bucketOf(d time.Duration) int {
	octave := max(bits.Len64(uint64(d))-bucketBits-1, 0)
	return octave*perOctave + int(d>>octave)
}

// upperBound returns the longest time of a bucket.
func upperBound(bucket int) time.Duration {
	octave := max(bucket/perOctave-1, 0)
	return time.Duration(bucket-octave*perOctave+1)<<octave - 1
}

// NewDistribution returns the distribution of some times.
func NewDistribution(times ...time.Duration) *Distribution {
	d := &Distribution{}
	for _, t := range times {
		d.Add(t)
	}
	return d
}

// Add counts a time. A negative one counts as 0.
func (d *Distribution) Add(t time.Duration) {
	t = max(t, 0)
	at := bucketOf(t)
	if at >= len(d.counts) {
		d.counts = append(d.counts, make([]int64, at+1-len(d.counts))...)
	}
	d.counts[at]++
	d.count++
	d.max = max(d.max, t)
}

// Count returns how many times were added.
func (d *Distribution) Count() int { return d.count }

// Quantile returns the q quantile by nearest rank, up to 1/128 too high, or 0 if the distribution
// is empty.
func (d *Distribution) Quantile(q float64) time.Duration {
	rank := int64(min(max(int(math.Ceil(q*float64(d.count))), 1), d.count))
	for at, n := range d.counts {
		if rank -= n; rank <= 0 && n > 0 {
			return min(upperBound(at), d.max)
		}
	}
	return 0
}

// Summary returns what reports contain of a distribution.
func (d *Distribution) Summary() *Summary {
	return &Summary{
		Count: d.count,
		P50:   Seconds(d.Quantile(0.5)),
		P99:   Seconds(d.Quantile(0.99)),
		P999:  Seconds(d.Quantile(0.999)),
		Max:   Seconds(d.max),
	}
}

// Summary is a distribution in reports.
type Summary struct {
	Count int     `json:"count"`
	P50   Seconds `json:"p50"`
	P99   Seconds `json:"p99"`
	P999  Seconds `json:"p999"`
	Max   Seconds `json:"max"`
}

// Seconds is a time in reports: a number of seconds.
type Seconds time.Duration

// Float returns the number of seconds.
func (s Seconds) Float() float64 { return time.Duration(s).Seconds() }

// MarshalJSON implements json.Marshaler.
func (s Seconds) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (s *Seconds) UnmarshalJSON(encoded []byte) error {
	var seconds float64
	err := json.Unmarshal(encoded, &seconds)
	*s = Seconds(toInt64(math.Round(seconds * float64(time.Second))))
	return err
}
