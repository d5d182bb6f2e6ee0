// Package measure reads the CPU time and memory of processes, from the kernel or from their own
// metrics, asks a Prometheus, describes the machine, and computes percentiles. It imports nothing
// of Lateen.
package measure
