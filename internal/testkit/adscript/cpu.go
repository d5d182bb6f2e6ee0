package adscript

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is what Envoy's threads have used of the processors so far, to the nanosecond, as Linux
// accounts for it (/proc/PID/task/*/schedstat, first field). Envoy's threads do not end before it
// does.
func (r *Run) CPU() time.Duration {
	r.t.Helper()
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(r.envoy.cmd.Process.Pid) + "/task/*/schedstat")
	if err != nil || len(threads) == 0 {
		r.t.Fatalf("adscript: no CPU times of Envoy's threads in /proc: %v", err)
	}
	var sum time.Duration
	for _, file := range threads {
		line, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatalf("adscript: %v", err)
		}
		spent, _, _ := strings.Cut(string(line), " ")
		ns, err := strconv.ParseInt(spent, 10, 64)
		if err != nil {
			r.t.Fatalf("adscript: %s: %v", file, err)
		}
		sum += time.Duration(ns)
	}
	return sum
}
