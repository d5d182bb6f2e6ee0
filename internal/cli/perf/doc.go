// Package perf owns the commands of lateen perf that the program carries out itself, and those that
// they start: the measured control plane, and sidecars that misbehave. What sends requests is
// cli/loadtest.
//
// It may import perf and its packages, app, local, cli/command, cli/process, cli/remote,
// cli/results and cli/terminal.
package perf
