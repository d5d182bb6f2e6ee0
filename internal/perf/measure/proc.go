package measure

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc: a hundredth of a second on all Linux machines.
const tick = 10 * time.Millisecond

// PID is a process of this machine, seen through /proc.
type PID int

// Usage implements Process.
func (p PID) Usage(context.Context) (Usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(int(p)))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Usage{}, fmt.Errorf("process %d: %w", p, err)
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return Usage{}, fmt.Errorf("process %d: %w", p, err)
	}
	u := Usage{At: time.Now(), Resident: field(status, "VmRSS:") << 10, Peak: field(status, "VmHWM:") << 10}
	if precise, ok := cpuClock(p); ok {
		u.CPU = precise
		return u, nil
	}
	u.CPU, err = cpuOf(stat)
	return u, err
}

// cpuOf reads utime and stime, fields 14 and 15 of proc_pid_stat(5). The name before them may
// contain any byte.
func cpuOf(stat []byte) (time.Duration, error) {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/…/stat: %d fields behind the name, want 13 at least", len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/…/stat: utime: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/…/stat: stime: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}

// field returns the number after a name, as in proc_pid_status(5), or 0.
func field(content []byte, name string) (value int64) {
	for line := range bytes.Lines(content) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if fields := strings.Fields(string(rest)); len(fields) > 0 {
				value, _ = strconv.ParseInt(fields[0], 10, 64)
			}
		}
	}
	return value
}

// SocketMemory returns the kernel's memory for all TCP sockets of this machine in bytes
// (proc_net(5), sockstat), or 0 if it is unknown.
func SocketMemory() int64 {
	content, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return 0
	}
	return tcpMemory(content) * int64(os.Getpagesize())
}

// tcpMemory reads the number of pages in "TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 3".
func tcpMemory(sockstat []byte) int64 {
	for line := range bytes.Lines(sockstat) {
		fields := strings.Fields(string(line))
		if len(fields) == 0 || fields[0] != "TCP:" {
			continue
		}
		for i := 1; i+1 < len(fields); i += 2 {
			if fields[i] == "mem" {
				pages, _ := strconv.ParseInt(fields[i+1], 10, 64)
				return pages
			}
		}
	}
	return 0
}

// Machine describes where something was measured.
type Machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu,omitempty"`
	Cores  int    `json:"cores"`
	Memory int64  `json:"memoryBytes,omitempty"`
	Go     string `json:"go"`
}

// ThisMachine describes the machine that this runs on.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	if cpuinfo, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.CPU = textAfter(cpuinfo, "model name")
	}
	if meminfo, err := os.ReadFile("/proc/meminfo"); err == nil {
		m.Memory = field(meminfo, "MemTotal:") << 10
	}
	return m
}

// textAfter returns the text after a name and a colon.
func textAfter(content []byte, name string) string {
	for line := range bytes.Lines(content) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(key)) == name {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}
