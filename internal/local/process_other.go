//go:build !linux

package local

import "syscall"

// Tied makes a child lead a group of its own. Elsewhere than on Linux it survives a killed
// parent.
func Tied() *syscall.SysProcAttr { return ownGroup() }

// ownGroup makes a child lead a group of its own.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit cannot tell the end without reaping, so what the leader left behind goes on.
func awaitExit(int) bool { return false }
