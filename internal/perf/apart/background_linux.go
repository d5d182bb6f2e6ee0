package apart

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// leastUrgent is the nice value of those who give way to all others.
const leastUrgent = 19

// ofItsOwn puts a process into a group of its own, so that a terminal's interrupt does not reach it: it is ended in order.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// background lets a process have only what CPU all others leave. Its group is told, since that reaches all of its threads: a process is
// its first thread alone, and one that waits for the CPU with what others of the same process need would delay them.
func background(process int) error {
	if err := unix.Setpriority(unix.PRIO_PGRP, process, leastUrgent); err != nil {
		return fmt.Errorf("a process in the background: %w", err)
	}
	return nil
}
