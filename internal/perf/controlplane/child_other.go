//go:build !linux

package controlplane

import "syscall"

// childAttributes keeps a terminal's interrupt from a child. Here it outlives this process if that
// is killed, until it notices that the link ended.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
