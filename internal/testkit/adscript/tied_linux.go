package adscript

import "syscall"

// tied lets Envoy end with the test's process, however that ends.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
