package apart

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// lowestPriority is the nice value of a process that yields the CPU to all others.
const lowestPriority = 19

// ownProcessGroup puts a process into a group of its own, so that a terminal's interrupt does not
// reach it. Sidecars.Stop ends it.
func ownProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// background gives a process only the CPU time that all others leave. It sets the priority of the
// process group, because setpriority(2) of a process reaches only its first thread. Other threads
// of normal priority would delay the measured process.
func background(process int) error {
	if err := unix.Setpriority(unix.PRIO_PGRP, process, lowestPriority); err != nil {
		return fmt.Errorf("a process in the background: %w", err)
	}
	return nil
}
