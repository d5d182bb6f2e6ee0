package sidecar

import "time"

// This file has the faults of reading: slow readers and stalled readers.

// minReadSize is the least size of one read by a slow reader.
const minReadSize = 512

// readLimit returns the size of the next read.
func (s *Sidecar) readLimit() int {
	if s.faults == nil || s.faults.ReadRate == 0 {
		return readSize
	}
	return min(max(s.faults.ReadRate/10, minReadSize), readSize)
}

// delayNextRead pauses a slow reader after a read of n bytes.
func (s *Sidecar) delayNextRead(n int) {
	if s.faults == nil || s.faults.ReadRate == 0 {
		return
	}
	s.paused = true
	s.after(time.Duration(n)*time.Second/time.Duration(s.faults.ReadRate), func(s *Sidecar) { s.paused = false })
}

// wantsToRead reports whether the sidecar reads now.
func (s *Sidecar) wantsToRead() bool {
	if s.paused || s.faults != nil && s.faults.StopsReading && s.synced.Load() {
		return false
	}
	return s.out == nil || len(s.out.queue) < queueLimit
}
