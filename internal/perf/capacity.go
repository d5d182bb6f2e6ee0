package perf

import "context"

// search finds the largest number of sidecars that a control plane bears.
type search struct {
	// from is tried first; none above most is.
	from, most int
	// exact is how near the result is to the limit, as a share of it: 0.05.
	exact float64
}

// run asks probe about numbers until the largest is known that it says yes to; 0 if it says no to 1. It doubles from the first number
// until the answer is no, or halves until it is yes, and then bisects. An error of probe ends it, with what was found so far.
func (s search) run(ctx context.Context, probe func(ctx context.Context, n int) (bool, error)) (best int, err error) {
	worst := s.most + 1 // the smallest that is too many
	n := min(max(s.from, 1), s.most)
	for worst-best > max(1, int(s.exact*float64(best))) {
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
