//go:build !linux

package envoy

import "syscall"

// tied keeps the signals of a terminal from the child: the agent drains first.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
