package controlplane

import "syscall"

// tied lets a child end with this process, however that ends, and keeps a terminal's interrupt from it: this process ends it in order.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// maxResident is the most memory that a process had in RAM, in bytes: getrusage(2) has it in units of 1024.
func maxResident(u *syscall.Rusage) int64 { return u.Maxrss << 10 }
