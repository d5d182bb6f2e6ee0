// Package lab owns lateen perf lab: the tests of the published documents that Lateen is held
// against, one declared entry each, with what it reproduces, its steps, and tables whose cells have
// our figure beside the published one. It may import perf, perf/controlplane, perf/cpulimit,
// perf/dataplane, perf/handwritten, perf/airline, perf/load, perf/measure, xds/proxystats and
// cli/terminal, and what describes and reads objects: api/istionames, api/kinds, source,
// source/manifest and source/memory.
package lab
