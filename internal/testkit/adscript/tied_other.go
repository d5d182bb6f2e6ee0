//go:build !linux

package adscript

import "syscall"

// tied can do nothing here: Envoy outlives a test process that is killed.
func tied() *syscall.SysProcAttr { return nil }
