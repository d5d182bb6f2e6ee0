package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Memory is what a process's memory in RAM consists of, in bytes.
type Memory struct {
	// Resident is all of it: File and Anonymous, and what it shares with others by other means.
	Resident int64
	// File is pages of files that it has mapped: its program and its libraries. All processes of
	// the same program share them.
	File int64
	// Anonymous is its own: heaps and stacks.
	Anonymous int64
	// Proportional is Resident with each shared page divided by the number of processes that have
	// it.
	Proportional int64
}

// Memory reads what the kernel says of the memory of a process (proc_pid_smaps_rollup(5)).
func (p PID) Memory() (Memory, error) {
	dir := filepath.Join("/proc", strconv.Itoa(int(p)))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return Memory{}, fmt.Errorf("process %d: %w", p, err)
	}
	rollup, err := os.ReadFile(filepath.Join(dir, "smaps_rollup"))
	if err != nil {
		return Memory{}, fmt.Errorf("process %d: %w", p, err)
	}
	return memoryOf(status, rollup), nil
}

func memoryOf(status, rollup []byte) Memory {
	return Memory{
		Resident: field(status, "VmRSS:") << 10, File: field(status, "RssFile:") << 10,
		Anonymous: field(status, "RssAnon:") << 10, Proportional: field(rollup, "Pss:") << 10,
	}
}
