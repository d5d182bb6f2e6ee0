package schedule

import "time"

// Debounce says how changes are gathered before they are applied as one batch.
type Debounce struct {
	// After is the quiet period that ends a batch (PILOT_DEBOUNCE_AFTER).
	After time.Duration
	// Max is the longest that a change waits (PILOT_DEBOUNCE_MAX).
	Max time.Duration
	// Steady is how long a change of configuration waits where others come all the time and pushes
	// cost little (LATEEN_DEBOUNCE_STEADY); 0 is up to Max.
	Steady time.Duration
	// Early is the short quiet period of LATEEN_DEBOUNCE_EARLY. If it is not 0, the first change
	// after a calm leaves at once, unless it leaves something wrong that the next ones may mend: a
	// route without its subset, an object that is refused. A removal, and what follows the first
	// change fast, wait for this period. It is also the least time between two batches of
	// endpoints.
	Early time.Duration
	// Endpoints reports whether changes of endpoints wait too (PILOT_ENABLE_EDS_DEBOUNCE): with all
	// others if Early is 0, else at the pace at which proxies get them.
	Endpoints bool
	// Moves is for how long an endpoint is kept that a slice has lost, and that may be about to
	// appear in another (see endpointGrace); 0 is not at all (LATEEN_DEBOUNCE_MOVES).
	Moves time.Duration
}

// separateEndpoints reports whether changes of endpoints do not wait with all others.
func (d *Debounce) separateEndpoints() bool { return d.Early > 0 || !d.Endpoints }
