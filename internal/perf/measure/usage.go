package measure

import (
	"context"
	"time"
)

// Usage is what a process has used, or uses, at one time.
type Usage struct {
	At time.Time
	// CPU is user and system time since the process began.
	CPU time.Duration
	// Resident and Peak are bytes of its memory in RAM, now and at most; Peak is 0 where nobody tells.
	Resident, Peak int64
	// Allocated and Allocations are bytes and objects that a Go process has ever allocated on its heap; 0 where nobody tells.
	Allocated, Allocations uint64
	// Queued are bytes that wait in it for its clients (lateen_xds_queued_bytes); 0 where nobody tells.
	Queued int64
	// Collecting is how much of CPU went into garbage collection, as the Go runtime reckons at the end of each; 0 where nobody tells.
	Collecting time.Duration
}

// Process is one that can be looked at.
type Process interface {
	Usage(ctx context.Context) (Usage, error)
}

// Since is what has been used since an earlier look: the difference of what only grows, and the rest as it is now.
func (u Usage) Since(earlier Usage) Usage {
	u.CPU -= earlier.CPU
	u.Allocated -= earlier.Allocated
	u.Allocations -= earlier.Allocations
	u.Collecting -= earlier.Collecting
	return u
}

// Sum is two processes as one, or the same one before and after it was started again.
func (u Usage) Sum(o Usage) Usage {
	return Usage{
		At: u.At, CPU: u.CPU + o.CPU, Resident: u.Resident + o.Resident, Peak: max(u.Peak, o.Peak),
		Allocated: u.Allocated + o.Allocated, Allocations: u.Allocations + o.Allocations, Queued: u.Queued + o.Queued, Collecting: u.Collecting + o.Collecting,
	}
}
