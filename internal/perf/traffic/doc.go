// Package traffic owns the requests of lateen perf data-plane: clients and servers of Fortio
// (fortio.org/fortio), an open loop that sends on time whatever the answers do, and results in
// Fortio's format. It imports perf/measure.
package traffic
