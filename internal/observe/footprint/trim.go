package footprint

import (
	"bufio"
	"io"
	"runtime/debug"
	"strconv"
	"strings"
)

// Trim gives back free memory of the heap, which collects garbage, and the pages of the program.
func Trim() error {
	debug.FreeOSMemory()
	return TrimProgram()
}

// TrimProgram gives back the pages of the program. Those that are used are mapped again from the
// page cache when they are: some thousand short faults.
func TrimProgram() error { return dropProgram() }

// mapping is a part of a process's address space.
type mapping struct {
	start, end uintptr
	file       string
	writable   bool
	anonymous  uint64 // kB that are no longer those of the file, in memory and swapped out
}

// droppable reports whether the pages of a mapping are all in the file: nobody may write them, and
// nobody has, as a dynamic linker would.
func (m mapping) droppable(program string) bool {
	return m.file == program && !m.writable && m.anonymous == 0
}

// mappings reads /proc/self/smaps. What it does not understand it leaves out.
func mappings(smaps io.Reader) ([]mapping, error) {
	var all []mapping
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 2 && (fields[0] == "Anonymous:" || fields[0] == "Swap:"):
			kB, err := strconv.ParseUint(fields[1], 10, 64)
			if err != nil || len(all) == 0 {
				continue
			}
			if fields[0] == "Anonymous:" {
				all[len(all)-1].anonymous = 0
			}
			all[len(all)-1].anonymous += kB
		case len(fields) >= 6 && len(fields[1]) == 4:
			from, to, _ := strings.Cut(fields[0], "-")
			start, err := strconv.ParseUint(from, 16, 64)
			if err != nil {
				continue
			}
			end, err := strconv.ParseUint(to, 16, 64)
			if err != nil {
				continue
			}
			all = append(all, mapping{
				start:    uintptr(start),
				end:      uintptr(end),
				file:     strings.Join(fields[5:], " "),
				writable: fields[1][1] == 'w',
				// without the line Anonymous nothing is known
				anonymous: 1,
			})
		}
	}
	return all, lines.Err()
}
