//go:build !linux

package lab

import (
	"errors"
	"os/exec"
	"syscall"
)

func attributes() *syscall.SysProcAttr { return nil }

func withResolver([]string, string) (*exec.Cmd, error) {
	return nil, errors.New("a resolver for one Envoy alone needs a mount namespace: want Linux")
}
