package sidecar

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// leastUrgent is the nice value of those who give way to all others.
const leastUrgent = 19

// background gives the calling goroutine a thread of its own, which gives way to all others.
func background() error {
	runtime.LockOSThread() // and the thread ends with the goroutine
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), leastUrgent); err != nil {
		return fmt.Errorf("a thread of sidecars in the background: %w", err)
	}
	return nil
}
