package kubeapi

import (
	"os"
	"syscall"
)

// tied makes a child lead a group of its own, and die when the test's process is killed.
func tied() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
