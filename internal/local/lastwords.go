package local

import (
	"slices"
	"strings"
)

const (
	// wordsBytes is how much of the control plane's log is read for what it said last. The stack of
	// a panic is some 5 kB.
	wordsBytes = 256 << 10
	// wordsLines and panicLines are how many lines of it are shown.
	wordsLines, panicLines = 3, 12
)

// lastWords returns the lines of the control plane's log that tell why it ended: a panic from its
// first line, or else records of errors and lines that are no records, as the message of a command
// that fails. It is empty if the log has none, as after kill -9.
func lastWords(path string, since int64) []string {
	lines := linesOf(path, since, wordsBytes)
	if at := slices.IndexFunc(lines, beginsPanic); at >= 0 {
		return lines[at:min(len(lines), at+panicLines)]
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" || isRoutine(line) })
	return lines[max(0, len(lines)-wordsLines):]
}

// beginsPanic reports whether a line is the first of what Go's runtime writes when it ends a
// program.
func beginsPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") ||
		strings.HasPrefix(line, "SIG") || strings.HasPrefix(line, "runtime: ")
}

// isRoutine reports whether a line is a record below the level of errors, in text or JSON.
func isRoutine(line string) bool {
	for _, level := range []string{"DEBUG", "INFO", "WARN"} {
		if strings.HasPrefix(line, "time=") && strings.Contains(line, " level="+level+" ") ||
			strings.HasPrefix(line, "{") && strings.Contains(line, `"level":"`+level+`"`) {
			return true
		}
	}
	return false
}
