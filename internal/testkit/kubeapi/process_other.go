//go:build !linux

package kubeapi

import (
	"os"
	"syscall"
)

// tied can do nothing here: a child outlives a test process that is killed.
func tied() *syscall.SysProcAttr { return nil }

func killGroup(p *os.Process) { _ = p.Kill() }
