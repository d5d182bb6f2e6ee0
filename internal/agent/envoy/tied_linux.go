package envoy

import "syscall"

// tied makes a child end with the thread that started it, and keeps the signals of a terminal from
// it: the agent drains first.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
