package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuClock reads the clock of a process's CPU time (clock_getcpuclockid(3)), which counts
// nanoseconds where /proc counts ticks. ok is false for a process that has ended.
func cpuClock(p PID) (used time.Duration, ok bool) {
	const scheduled = 2 // CPUCLOCK_SCHED: user and system, of all threads
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^int(p)<<3|scheduled), &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
