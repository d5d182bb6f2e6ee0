package lab

import (
	"os"
	"os/exec"
	"syscall"
)

// attributes have the kernel end a process when this one ends, and keep a terminal's interrupt from
// it, since this process ends it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// withResolver returns a command that sees a file as /etc/resolv.conf: it has a mount namespace of
// its own. Who is not root needs a user namespace for that, which some systems forbid.
func withResolver(argv []string, file string) (*exec.Cmd, error) {
	const script = `mount --bind "$0" /etc/resolv.conf && exec "$@"`
	cmd := exec.Command("sh", append([]string{"-c", script, file}, argv...)...)
	cmd.SysProcAttr = attributes()
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
		return cmd, nil
	}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	return cmd, nil
}
