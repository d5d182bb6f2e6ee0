package perf

import "context"

// search finds the largest number of sidecars that a control plane can serve.
type search struct {
	// from is the number that is tried first, and most the largest.
	from, most int
	// precision is how near the result is to the limit, as a share of it: 0.05.
	precision float64
}

// run returns the largest number that probe accepts, or 0 if it rejects 1. It doubles the first
// number until probe rejects it, or halves it until probe accepts it, and then bisects. An error of
// probe ends the search, with the best number so far.
func (s search) run(ctx context.Context, probe func(ctx context.Context, n int) (bool, error)) (best int, err error) {
	worst := s.most + 1 // the smallest number known to be rejected
	n := min(max(s.from, 1), s.most)
	for worst-best > max(1, int(s.precision*float64(best))) {
		ok, err := probe(ctx, n)
		if err != nil {
			return best, err
		}
		if ok {
			best = n
		} else {
			worst = n
		}
		switch {
		case best == 0:
			n = worst / 2
		case worst > s.most:
			n = min(2*best, s.most)
		default:
			n = (best + worst) / 2
		}
		if n == 0 {
			return 0, nil
		}
	}
	return best, nil
}
