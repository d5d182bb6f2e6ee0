package controlplane

import "syscall"

// tied lets a child end with this process, however that ends, and keeps a terminal's interrupt from it: this process ends it in order.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
