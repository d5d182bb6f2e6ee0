package sidecar

import "time"

// This file has how a sidecar reads less than it could.

// leastAppetite is how much is read at a time at the least by who reads slowly.
const leastAppetite = 512

// appetite is how much it reads at a time.
func (s *Sidecar) appetite() int {
	if s.manners == nil || s.manners.ReadRate == 0 {
		return readSize
	}
	return min(max(s.manners.ReadRate/10, leastAppetite), readSize)
}

// restrain lets time pass after a read.
func (s *Sidecar) restrain(n int) {
	if s.manners == nil || s.manners.ReadRate == 0 {
		return
	}
	s.paused = true
	s.after(time.Duration(n)*time.Second/time.Duration(s.manners.ReadRate), func(s *Sidecar) { s.paused = false })
}

// hears tells whether it wants to read.
func (s *Sidecar) hears() bool {
	if s.paused || s.manners != nil && s.manners.Deaf && s.synced.Load() {
		return false
	}
	return s.out == nil || len(s.out.queue) < queueLimit
}
