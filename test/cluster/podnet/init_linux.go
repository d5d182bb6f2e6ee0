package podnet

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// InitCommand is the first argument with which a test binary is started to become a program of a
// pod: Init.
const InitCommand = "pod-init"

// User is who a program runs as. The zero value is root.
type User struct{ UID, GID int }

// InitArgs is the command line by which a test binary becomes a program, with a resolv.conf of the
// pod's, as a user.
func InitArgs(self, resolvConf string, user User, args []string) []string {
	return append([]string{
		self, InitCommand, "--resolv-conf", resolvConf,
		"--uid", fmt.Sprint(user.UID), "--gid", fmt.Sprint(user.GID), "--",
	}, args...)
}

// Init does what InitArgs say. The host name is that of $HOSTNAME, if there is one. It returns only
// when it fails.
func Init(args []string) error {
	flags := flag.NewFlagSet(InitCommand, flag.ContinueOnError)
	resolvConf := flags.String("resolv-conf", "", "file that stands in for /etc/resolv.conf")
	uid, gid := flags.Int("uid", 0, "user to be"), flags.Int("gid", 0, "its group")
	if err := flags.Parse(args); err != nil {
		return err
	}
	program := flags.Args()
	if len(program) == 0 {
		return errors.New("want a program and its arguments behind --")
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount(*resolvConf, "/etc/resolv.conf", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s: %w", *resolvConf, err)
	}
	if name := os.Getenv("HOSTNAME"); name != "" {
		if err := unix.Sethostname([]byte(name)); err != nil {
			return fmt.Errorf("host name %s: %w", name, err)
		}
	}
	if *uid != 0 || *gid != 0 {
		if err := errors.Join(syscall.Setgid(*gid), syscall.Setuid(*uid)); err != nil {
			return err
		}
		// Another user's process does not die with its parent any more unless it says so again.
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
			return err
		}
	}
	return syscall.Exec(program[0], program, os.Environ())
}
