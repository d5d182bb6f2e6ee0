package memory

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// unlimited is from where on a limit of cgroup v1 means none: the kernel writes the largest number
// of pages.
const unlimited = 1 << 60

// cgroupLimit returns the memory in bytes that the process's cgroup and its ancestors allow
// (cgroups(7), both versions); false if there is no limit. files is the root of the file system.
func cgroupLimit(files fs.FS) (int64, bool) {
	membership, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	least := int64(unlimited)
	for line := range strings.Lines(string(membership)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "":
			least = min(least, leastAbove(files, "sys/fs/cgroup", fields[2], "memory.max"))
		case slices.Contains(strings.Split(fields[1], ","), "memory"):
			least = min(least, leastAbove(files, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return least, least < unlimited
}

// leastAbove returns the least limit of a group and its ancestors. In a container the path may be
// the host's, which does not exist there. Then the limit at the root counts, which is the
// container's own.
func leastAbove(files fs.FS, root, group, name string) int64 {
	least := int64(unlimited)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		if content, err := fs.ReadFile(files, path.Join(root, at, name)); err == nil {
			// "max" is none
			if n, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
		if at == "/" {
			return least
		}
	}
}
