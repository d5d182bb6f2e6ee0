package metrics

import (
	"bytes"
	"os"
	"runtime"
	rm "runtime/metrics"
	"strconv"
	"syscall"
)

// Process registers what the process takes, under the names that Prometheus's Go client has behind
// the prefix.
func Process(r *Registry, prefix string) {
	r.Gauge(prefix+"go_goroutines", "Number of goroutines that currently exist.",
		func() float64 { return float64(runtime.NumGoroutine()) })
	r.Gauge(prefix+"go_memstats_heap_alloc_bytes", "Number of heap bytes allocated and still in use.",
		func() float64 { return read("/memory/classes/heap/objects:bytes") })
	r.Gauge(prefix+"go_memstats_sys_bytes", "Number of bytes obtained from system.",
		func() float64 { return read("/memory/classes/total:bytes") })
	r.Gauge(prefix+"process_resident_memory_bytes", "Resident memory size in bytes.", resident)
	r.CounterFunc(prefix+"process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", cpuSeconds)
}

func read(name string) float64 {
	sample := []rm.Sample{{Name: name}}
	rm.Read(sample)
	if sample[0].Value.Kind() != rm.KindUint64 {
		return 0
	}
	return float64(sample[0].Value.Uint64())
}

// resident returns bytes of memory, and 0 where Linux's /proc is missing.
func resident() float64 {
	content, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(content)
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return float64(pages) * float64(os.Getpagesize())
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}
