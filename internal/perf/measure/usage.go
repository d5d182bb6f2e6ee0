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
	// Resident and Peak are bytes of its memory in RAM, now and at most. Peak is 0 if it is
	// unknown.
	Resident, Peak int64
	// Allocated and Allocations are bytes and objects that a Go process has ever allocated on its
	// heap, or 0 if unknown.
	Allocated, Allocations uint64
	// Queued is how many bytes wait in it for its clients (lateen_xds_queued_bytes), or 0 if
	// unknown.
	Queued int64
	// GCTime is the part of CPU spent on garbage collection, which the Go runtime computes at the
	// end of each cycle, or 0 if unknown.
	GCTime time.Duration
}

// Process is a process whose usage can be read.
type Process interface {
	Usage(ctx context.Context) (Usage, error)
}

// Since returns what has been used since an earlier reading. Gauges keep their present value.
func (u Usage) Since(earlier Usage) Usage {
	u.CPU -= earlier.CPU
	u.Allocated -= earlier.Allocated
	u.Allocations -= earlier.Allocations
	u.GCTime -= earlier.GCTime
	return u
}

// Sum adds the usage of two processes, or of one before and after its restart.
func (u Usage) Sum(o Usage) Usage {
	return Usage{
		At: u.At, CPU: u.CPU + o.CPU, Resident: u.Resident + o.Resident, Peak: max(u.Peak, o.Peak),
		Allocated:   u.Allocated + o.Allocated,
		Allocations: u.Allocations + o.Allocations,
		Queued:      u.Queued + o.Queued,
		GCTime:      u.GCTime + o.GCTime,
	}
}
