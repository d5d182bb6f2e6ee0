package jmeter

import "syscall"

// attributes give a process a group of its own, so that what a script starts ends with it, and a
// terminal's interrupt reaches this process alone, which ends it. The kernel ends the process when
// this one ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
