//go:build !linux

package realprometheus

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
