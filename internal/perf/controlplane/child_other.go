//go:build !linux

package controlplane

import "syscall"

// tied keeps a terminal's interrupt from a child. Here it outlives this process if that is killed, until it notices that the link ended.
func tied() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
