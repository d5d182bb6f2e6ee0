//go:build !linux

package apart

import "syscall"

func ofItsOwn() *syscall.SysProcAttr { return nil }

// background does nothing: sidecars are simulated on Linux alone.
func background(int) error { return nil }
