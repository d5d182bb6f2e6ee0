//go:build !linux

package lateenserve

import "syscall"

// tied can do nothing here: lateen outlives a test process that is killed.
func tied() *syscall.SysProcAttr { return nil }
