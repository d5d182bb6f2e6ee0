package controlplane

import "syscall"

// childAttributes makes the kernel kill a child when this process ends, and keeps a terminal's
// interrupt from the child, since this process ends it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
