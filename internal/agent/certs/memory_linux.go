package certs

import "golang.org/x/sys/unix"

// InMemory reports whether a directory's file system keeps its files in memory, as an emptyDir of
// medium Memory does.
func InMemory(dir string) bool {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return false
	}
	return s.Type == unix.TMPFS_MAGIC || s.Type == unix.RAMFS_MAGIC
}
