package sidecar

import "time"

// timer is a scheduled action of a sidecar. It does nothing if its connection is closed.
type timer struct {
	at      time.Time
	sidecar *Sidecar
	stream  uint32 // the sidecar's stream when the timer was set
	do      func(*Sidecar)
}

// timers is a heap. It has a few timers for each sidecar, and one for each delayed answer, of which
// the server's unanswered responses limit the number.
type timers []timer

func (h *timers) add(t timer) {
	*h = append(*h, t)
	a := *h
	for i := len(a) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a[i].at.Before(a[parent].at) {
			return
		}
		a[i], a[parent] = a[parent], a[i]
		i = parent
	}
}

// due removes and returns a timer whose time has come.
func (h *timers) due(now time.Time) (t timer, ok bool) {
	a := *h
	if len(a) == 0 || a[0].at.After(now) {
		return timer{}, false
	}
	t = a[0]
	last := len(a) - 1
	a[0], a[last] = a[last], timer{}
	a = a[:last]
	*h = a
	for i := 0; ; {
		least := i
		for _, child := range []int{2*i + 1, 2*i + 2} {
			if child < last && a[child].at.Before(a[least].at) {
				least = child
			}
		}
		if least == i {
			return t, true
		}
		a[i], a[least] = a[least], a[i]
		i = least
	}
}

// wait returns the time until the first timer is due. It is negative if there is none.
func (h timers) wait(now time.Time) time.Duration {
	if len(h) == 0 {
		return -1
	}
	return max(0, h[0].at.Sub(now))
}
