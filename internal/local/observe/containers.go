package observe

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/lateen-mesh/lateen/internal/perf/measure"
)

const containersPath = "/containers"

// containers serves the CPU time and the memory of each process, under the names and labels that
// the kubelet has for containers. A process that ends meanwhile is left out.
func (p *proxies) containers(w http.ResponseWriter, r *http.Request) {
	var cpu, memory bytes.Buffer
	for _, pod := range p.pods() {
		for _, c := range pod.Processes {
			if c.PID == 0 {
				continue
			}
			usage, err := measure.PID(c.PID).Usage(r.Context())
			if err != nil {
				continue
			}
			labels := fmt.Sprintf("{namespace=%q,pod=%q,container=%q}", pod.Namespace, pod.Name, c.Name)
			fmt.Fprintf(&cpu, "container_cpu_usage_seconds_total%s %g\n", labels, usage.CPU.Seconds())
			fmt.Fprintf(&memory, "container_memory_working_set_bytes%s %d\n", labels, usage.Resident)
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	text := "# TYPE container_cpu_usage_seconds_total counter\n" + cpu.String() +
		"# TYPE container_memory_working_set_bytes gauge\n" + memory.String()
	if _, err := w.Write([]byte(text)); err != nil {
		p.log.Debug("Prometheus is not told of containers", "error", err)
	}
}
