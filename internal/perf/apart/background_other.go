//go:build !linux

package apart

import "syscall"

func ownProcessGroup() *syscall.SysProcAttr { return nil }

// background does nothing. Sidecars are simulated on Linux only.
func background(int) error { return nil }
