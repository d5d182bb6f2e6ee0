// Package lab owns lateen perf lab: the tests of the published documents that Lateen is held
// against, one declared entry each, with what it reproduces, its steps, and tables whose cells have
// our figure beside the published one. It imports perf, perf/controlplane, perf/dataplane,
// perf/airline, perf/load and perf/measure, and what describes objects: api/kinds and source.
package lab
