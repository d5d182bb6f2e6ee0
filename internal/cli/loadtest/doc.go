// Package loadtest is the program lateen-perf: the commands of lateen perf that send requests
// through real Envoys or draw reports. They are apart from lateen, because they link Fortio, and
// charts, which the control plane has no use for. The package imports cli/build, cli/command,
// cli/terminal, perf/measure, perf/traffic, perf/dataplane, perf/airline, perf/jmeter, perf/lab and
// perf/htmlreport.
package loadtest
