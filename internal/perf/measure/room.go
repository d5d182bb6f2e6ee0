package measure

import (
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Room is what a machine has room for. 0 is unknown.
type Room struct {
	// Descriptors is the largest limit of file descriptors that a process may set for itself.
	Descriptors int
	// Memory is what processes may still take, in bytes: of the machine, or of this process's
	// cgroup if that is less.
	Memory int64
}

// ThisRoom reads what this machine has room for.
func ThisRoom() Room {
	var r Room
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil && limit.Max <= math.MaxInt32 {
		r.Descriptors = int(limit.Max)
	}
	if meminfo, err := os.ReadFile("/proc/meminfo"); err == nil {
		r.Memory = field(meminfo, "MemAvailable:") << 10
	}
	if left, ok := cgroupRoom("/sys/fs/cgroup"); ok && (r.Memory == 0 || left < r.Memory) {
		r.Memory = left
	}
	return r
}

// cgroupRoom returns what is left of the limit of this process's cgroup (v2), as a container sees
// it.
func cgroupRoom(root string) (left int64, ok bool) {
	limit, limited := readNumber(root + "/memory.max")
	used, known := readNumber(root + "/memory.current")
	if stat, err := os.ReadFile(root + "/memory.stat"); err == nil {
		used -= numberAfter(string(stat), "inactive_file ") // pages of files, which the kernel gives back
	}
	return max(1, limit-used), limited && known
}

// numberAfter returns the number in the line that begins with a text; 0 if there is none.
func numberAfter(lines, begin string) int64 {
	for line := range strings.Lines(lines) {
		if text, ok := strings.CutPrefix(line, begin); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// readNumber reads a file that has a number alone; "max" is none.
func readNumber(file string) (int64, bool) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
	return n, err == nil
}
