package app

import (
	"runtime"
	"syscall"
	"time"
)

// busy returns how much CPU time the process has used, divided by the CPUs that it may use.
func busy() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano()+used.Stime.Nano()) / time.Duration(runtime.GOMAXPROCS(0))
}
