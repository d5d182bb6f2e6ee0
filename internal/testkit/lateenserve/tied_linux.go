package lateenserve

import "syscall"

// tied lets lateen end with the test's process, however that ends.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
