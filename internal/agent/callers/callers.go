package callers

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
)

// Guard recognizes connections of Envoy.
type Guard struct {
	// PID is the process of Envoy; 0 while there is none.
	PID func() int
}

// Errors of Check, for the caller.
var (
	errEnvoy   = errors.New("the caller is the proxy itself: no route may lead here")
	errUnknown = errors.New("the process of the caller is not known")
)

// Check returns an error unless a process of this machine other than Envoy has a TCP connection.
// from is the caller's end of it. A connection whose process cannot be told counts as Envoy's.
//
// Envoy may close a connection at any time, so it is looked for before and after Envoy's files are.
func (g Guard) Check(from, to netip.AddrPort) error {
	pid := g.PID()
	if pid == 0 {
		return nil
	}
	before, err := find(from, to)
	if err != nil {
		return err
	}
	if before.uid != os.Geteuid() { // Envoy has the agent's
		return nil
	}
	switch held, err := holds(pid, before.inode); {
	case err != nil:
		return fmt.Errorf("%w (%w)", errUnknown, err)
	case held:
		return errEnvoy
	}
	if after, err := find(from, to); err != nil || after != before {
		return errUnknown
	}
	return nil
}

// socket is one end of a connection.
type socket struct{ uid, inode int }

// find returns the caller's end of a connection. One that no process has any more is an error.
func find(from, to netip.AddrPort) (socket, error) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		s, ok, err := lookUp(table, from, to)
		if err != nil && !os.IsNotExist(err) { // a machine may lack IPv6
			return socket{}, fmt.Errorf("%w (%w)", errUnknown, err)
		}
		if ok {
			return s, nil
		}
	}
	return socket{}, errUnknown
}

func lookUp(table string, from, to netip.AddrPort) (s socket, ok bool, err error) {
	f, err := os.Open(table)
	if err != nil {
		return socket{}, false, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if s, ok = parse(lines.Bytes(), from, to); ok {
			return s, true, nil
		}
	}
	return socket{}, false, lines.Err()
}

// holds reports whether a process has a socket open.
func holds(pid, inode int) (bool, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	f, err := os.Open(dir)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	want := "socket:[" + strconv.Itoa(inode) + "]"
	for _, name := range names {
		to, err := os.Readlink(filepath.Join(dir, name))
		if err != nil && !os.IsNotExist(err) { // closed in the meantime
			return false, err
		}
		if to == want {
			return true, nil
		}
	}
	return false, nil
}
