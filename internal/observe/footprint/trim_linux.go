package footprint

import (
	"fmt"
	"os"
	"syscall"
)

// dropProgram unmaps the pages of the program's file.
func dropProgram() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer func() { _ = smaps.Close() }()
	all, err := mappings(smaps)
	if err != nil {
		return err
	}
	for _, m := range all {
		if !m.droppable(program) {
			continue
		}
		if _, _, e := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); e != 0 {
			return fmt.Errorf("madvise: %w", e)
		}
	}
	return nil
}
