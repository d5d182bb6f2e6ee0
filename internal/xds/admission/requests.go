package admission

import "time"

// RequestBurst and RequestRate limit the requests of one client that are no answers to responses:
// so many at once, and so many per second in the long run. An Envoy makes one for each type and
// each change of its subscriptions, and with on-demand discovery one for each host that it first
// calls.
const (
	RequestBurst = 1000
	RequestRate  = 200
)

const (
	requestInterval = time.Second / RequestRate
	burstInterval   = RequestBurst * requestInterval
)

// RequestBudget limits the rate of one client's requests with the generic cell rate algorithm, a
// token bucket that needs one number: the time at which the bucket would be full again. The zero
// value is a full bucket.
type RequestBudget time.Duration

// Take counts a request and returns how long to wait before the next one is read. now is a time
// since any fixed one.
func (b *RequestBudget) Take(now time.Duration) time.Duration {
	*b = max(*b, RequestBudget(now)) + RequestBudget(requestInterval)
	return max(0, time.Duration(*b)-now-burstInterval)
}
