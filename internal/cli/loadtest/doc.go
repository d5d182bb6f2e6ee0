// Package loadtest is the program lateen-perf: the commands of lateen perf that send requests
// through real Envoys or draw reports. They are apart from lateen, because they link Fortio, and
// charts, which the control plane has no use for. The package imports cli/command, cli/terminal,
// perf/traffic, perf/dataplane, perf/airline, perf/lab and perf/htmlreport.
package loadtest
